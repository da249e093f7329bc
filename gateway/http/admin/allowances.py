"""Outage allowances: how much a project with a hard budget may still spend at each gateway while the database is away.

By default none has one. Each gateway holds the amount on the project's budgets, so it is not there for anybody else.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field

from gateway.db import ReadSession
from gateway.http.admin.common import AdminParts, Body, Json, record
from gateway.ids import TenantId
from gateway.ledger.repository.leases import allowance_of, put_allowance

__all__ = ["AllowanceRoutes"]


class AllowanceBody(Body):
    """Of each gateway; 0 takes the allowance away."""

    amount_nanousd: Annotated[int, Field(ge=0, le=1 << 60)]


class AllowanceRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts

    def register(self, router: APIRouter) -> None:
        router.add_api_route("/projects/{project_id}/outage_allowance", self.retrieve, methods=["GET"])
        router.add_api_route("/projects/{project_id}/outage_allowance", self.put, methods=["POST"])

    async def retrieve(self, project_id: str) -> Json:
        async with self._p.database.read() as session:
            return _allowance(project_id, await allowance_of(session, TenantId(project_id)))

    async def put(self, request: Request, project_id: str, body: AllowanceBody) -> Json:
        async with self._p.database.write() as session:
            before = await allowance_of(ReadSession(session), TenantId(project_id))
            await put_allowance(session, TenantId(project_id), body.amount_nanousd)
            resource = ("outage_allowance", project_id)
            details = {"before": {"amount_nanousd": before}, "after": body.model_dump()}
            await record(self._p, session, request, "outage_allowance.updated", resource, project_id, details)
        return _allowance(project_id, body.amount_nanousd)


def _allowance(project_id: str, amount_nanousd: int) -> Json:
    return {
        "object": "organization.project.outage_allowance",
        "project_id": project_id,
        "amount_nanousd": amount_nanousd,
    }
