"""Stripe: whom each project is billed to there, and how the delivery of its meter events went."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field

from gateway.errors import Conflict, NotFound
from gateway.exports.models import MeterEvent, StripeCustomer
from gateway.exports.repository import deliveries, runs
from gateway.http.admin.common import AdminParts, After, Body, Json, Limit, Page, page_of, record, unix

__all__ = ["StripeRoutes"]

Status = Literal["pending", "delivered", "refused", "expired", "uncertain"]


class CustomerBody(Body):
    """Named once, and billed from the first period that closes after it."""

    project_id: str
    stripe_customer_id: str = Field(pattern=r"^cus_[A-Za-z0-9_]{1,100}$")


class StripeRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts

    def register(self, router: APIRouter) -> None:
        router.add_api_route("/stripe_customers", self.create, methods=["POST"])
        router.add_api_route("/stripe_customers", self.list, methods=["GET"])
        router.add_api_route("/meter_events", self.events, methods=["GET"])

    async def create(self, request: Request, body: CustomerBody) -> Json:
        async with self._p.database.write() as session:
            if not await runs.tenant_exists(session, body.project_id):
                raise NotFound("No such project.")
            row = await deliveries.add_customer(session, body.project_id, body.stripe_customer_id)
            if row is None:
                raise Conflict("The project has a customer, which does not change: its exports would.")
            resource, details = ("stripe_customer", body.project_id), {"after": body.model_dump()}
            action = "stripe_customer.created"
            await record(self._p, session, request, action, resource, body.project_id, details)
            return _customer(row)

    async def list(self, limit: Limit = 20, after: After = None) -> Page:
        async with self._p.database.read() as session:
            rows = await deliveries.customers(session, after, limit + 1)
            return page_of([_customer(row) for row in rows], limit)

    async def events(
        self,
        project_id: Annotated[str | None, Query(max_length=200)] = None,
        status: Status | None = None,
        limit: Limit = 20,
        after: After = None,
    ) -> Page:
        async with self._p.database.read() as session:
            rows = await deliveries.page(session, project_id, status, after, limit + 1)
            return page_of([_event(row) for row in rows], limit)


def _customer(row: StripeCustomer) -> Json:
    return {
        "object": "organization.stripe_customer",
        "id": row.tenant_id,
        "project_id": row.tenant_id,
        "stripe_customer_id": row.customer_id,
        "created_at": unix(row.created_at),
    }


def _event(row: MeterEvent) -> Json:
    return {
        "object": "organization.meter_event",
        "id": row.identifier,
        "export_id": row.run_id,
        "project_id": row.tenant_id,
        "stripe_customer_id": row.customer_id,
        "event_name": row.event_name,
        "timestamp": unix(row.happened_at),
        "amount_nanousd": row.amount_nanousd,
        "status": row.status,
        "attempts": row.attempts,
        "last_error": row.last_error,
        "delivered_at": unix(row.delivered_at),
    }
