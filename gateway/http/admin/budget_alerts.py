"""A budget's own alerts, as an amount or as percent of its limit, and what has fired, with its deliveries."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field

from gateway.alerts.repository.records import DeliveryView, RecordViews
from gateway.alerts.repository.thresholds import AlertScope
from gateway.alerts.types import Record, SpendAlertView
from gateway.db import ReadSession
from gateway.errors import InvalidValue, NotFound
from gateway.http.admin.alert_books import Address, AlertBooks, Cursor, Prefix
from gateway.http.admin.common import AdminParts, After, Body, Json, Limit, Page, page_of, unix
from gateway.ledger.repository.budget_views import BudgetRepository, BudgetView

__all__ = ["BudgetAlertRoutes"]

Filter = Annotated[str | None, Query(max_length=200)]


class BudgetAlertBody(Body):
    """One of the two thresholds. Without recipients it is recorded, and mailed to nobody."""

    threshold_nanousd: Annotated[int, Field(ge=1, le=1 << 62)] | None = None
    threshold_percent: Annotated[int, Field(ge=1, le=1000)] | None = None
    recipients: list[Address] = Field(default=[], max_length=20)
    subject_prefix: Prefix | None = None


class BudgetAlertRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._books = AlertBooks(parts)
        self._budgets = BudgetRepository()
        self._records = RecordViews()

    def register(self, router: APIRouter) -> None:
        all_, one = "/budgets/{budget_id}/alerts", "/budgets/{budget_id}/alerts/{alert_id}"
        router.add_api_route(all_, self.create, methods=["POST"])
        router.add_api_route(all_, self.list, methods=["GET"])
        router.add_api_route(one, self.retrieve, methods=["GET"])
        router.add_api_route(one, self.update, methods=["POST"])
        router.add_api_route(one, self.delete, methods=["DELETE"])
        router.add_api_route("/alerts", self.fired, methods=["GET"])
        router.add_api_route("/alerts/{record_id}", self.retrieve_fired, methods=["GET"])

    async def create(self, request: Request, budget_id: str, body: BudgetAlertBody) -> Json:
        async with self._p.database.write() as session:
            budget = await self._budget(ReadSession(session), budget_id)
            alert = self._wanted(self._p.ids.new("alert"), budget, body)
            await self._books.create(session, request, alert)
        return _alert(alert)

    async def list(self, budget_id: str, limit: Limit = 20, after: After = None) -> Page:
        async with self._p.database.read() as session:
            await self._budget(session, budget_id)
            rows = await self._books.page(session, AlertScope(None, budget_id), Cursor(limit, after))
        return page_of([_alert(row) for row in rows], limit)

    async def retrieve(self, budget_id: str, alert_id: str) -> Json:
        async with self._p.database.read() as session:
            return _alert(await self._books.retrieve(session, AlertScope(None, budget_id), alert_id))

    async def update(self, request: Request, budget_id: str, alert_id: str, body: BudgetAlertBody) -> Json:
        """Replaces what the alert says: both thresholds, recipients and prefix."""
        async with self._p.database.write() as session:
            budget = await self._budget(ReadSession(session), budget_id)
            wanted = self._wanted(alert_id, budget, body)
            alert = await self._books.update(session, request, AlertScope(None, budget_id), wanted)
        return _alert(alert)

    async def delete(self, request: Request, budget_id: str, alert_id: str) -> Json:
        async with self._p.database.write() as session:
            await self._books.delete(session, request, AlertScope(None, budget_id), alert_id)
        return {"object": "organization.budget.alert.deleted", "id": alert_id, "deleted": True}

    async def fired(
        self, project_id: Filter = None, type: Filter = None, limit: Limit = 20, after: After = None
    ) -> Page:
        """What has fired, newest first."""
        async with self._p.database.read() as session:
            rows = await self._records.page(session, project_id, type, after, limit + 1)
        return page_of([_record(row) for row in rows], limit)

    async def retrieve_fired(self, record_id: str) -> Json:
        """With its deliveries, as far as they have been made."""
        async with self._p.database.read() as session:
            found = await self._records.record(session, record_id)
            if found is None:
                raise NotFound("No such alert.")
            deliveries = await self._records.deliveries(session, record_id)
        return {**_record(found), "deliveries": [_delivery(one) for one in deliveries]}

    async def _budget(self, session: ReadSession, budget_id: str) -> BudgetView:
        budget = await self._budgets.budget(session, budget_id)
        if budget is None:
            raise NotFound("No such budget.")
        return budget

    def _wanted(self, alert_id: str, budget: BudgetView, body: BudgetAlertBody) -> SpendAlertView:
        if (body.threshold_nanousd is None) == (body.threshold_percent is None):
            raise InvalidValue(
                "Give threshold_nanousd or threshold_percent, one of the two.", "threshold_percent"
            )
        return SpendAlertView(
            id=alert_id,
            tenant_id=budget.tenant_id,
            budget_id=budget.id,
            threshold_nanousd=body.threshold_nanousd,
            threshold_percent=body.threshold_percent,
            recipients=tuple(body.recipients),
            subject_prefix=body.subject_prefix,
            created_at=self._p.clock.now(),
        )


def _alert(alert: SpendAlertView) -> Json:
    return {
        "object": "organization.budget.alert",
        "id": alert.id,
        "budget_id": alert.budget_id,
        "threshold_nanousd": alert.threshold_nanousd,
        "threshold_percent": alert.threshold_percent,
        "recipients": [*alert.recipients],
        "subject_prefix": alert.subject_prefix,
        "created_at": unix(alert.created_at),
    }


def _record(row: Record) -> Json:
    return {
        "object": "organization.alert",
        "id": row.id,
        "type": row.type,
        "project_id": row.tenant_id,
        "data": dict(row.payload),
        "created_at": unix(row.occurred_at),
    }


def _delivery(view: DeliveryView) -> Json:
    return {
        "object": "organization.alert.delivery",
        "id": view.id,
        "channel": view.channel,
        "target": view.target_key,
        "attempts": view.attempts,
        "next_attempt_at": unix(view.next_attempt_at),
        "delivered_at": unix(view.delivered_at),
        "last_error": view.last_error,
    }
