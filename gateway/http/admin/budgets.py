"""Budgets: how much a project, a key or the organisation may spend in a period."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field

from gateway.errors import InvalidValue, NotFound
from gateway.http.admin.common import AdminParts, Body, Json, Page, page_of, record, unix
from gateway.ids import KeyId, TenantId
from gateway.ledger.periods import zone_of
from gateway.ledger.repository.views import BudgetView, LedgerViews
from gateway.tenancy.projects.repository import ProjectRepository
from gateway.tenancy.repository import TenancyRepository

__all__ = ["BudgetRoutes"]


class BudgetBody(Body):
    """Without a project it is the organisation's; with a key it is that key's. A second one of the same scope
    and period changes the first."""

    project_id: str | None = None
    key_id: str | None = None
    period: Literal["daily", "weekly", "monthly", "prepaid"]
    limit_nanousd: int = Field(ge=0, le=1 << 62)
    is_hard: bool = True
    zone: str = "UTC"


class BudgetRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._views = LedgerViews()
        self._projects = ProjectRepository()
        self._tenancy = TenancyRepository()

    def register(self, router: APIRouter) -> None:
        router.add_api_route("/budgets", self.put, methods=["POST"])
        router.add_api_route("/budgets", self.list, methods=["GET"])
        router.add_api_route("/budgets/{budget_id}/periods", self.periods, methods=["GET"])

    async def put(self, request: Request, body: BudgetBody) -> Json:
        lineage_id = await self._check(body)
        budget = BudgetView(
            id=self._p.ids.new("budget"),
            scope="key" if body.key_id else "tenant" if body.project_id else "organization",
            tenant_id=body.project_id,
            key_id=lineage_id,
            period=body.period,
            zone=body.zone,
            limit_nanousd=body.limit_nanousd,
            is_hard=body.is_hard,
            created_at=self._p.clock.now(),
        )
        async with self._p.database.write() as session:
            budget_id = await self._views.put_budget(session, budget)
            resource = ("budget", budget_id)
            details = body.model_dump()
            await record(self._p, session, request, "budget.updated", resource, body.project_id, details)
        return {**_budget(budget), "id": budget_id}

    async def list(self, project_id: Annotated[str | None, Query(max_length=200)] = None) -> Page:
        async with self._p.database.read() as session:
            rows = await self._views.budgets(session, project_id)
        return page_of([_budget(row) for row in rows], len(rows))

    async def periods(self, budget_id: str) -> Page:
        async with self._p.database.read() as session:
            spent = await self._views.spent(session, budget_id)
        rows = [
            {"object": "organization.budget.period", "id": key, "held_nanousd": held, "spent_nanousd": total}
            for key, (held, total) in sorted(spent.items())
        ]
        return page_of(rows, len(rows))

    async def _check(self, body: BudgetBody) -> KeyId | None:
        """The key whose whole chain of rotations the budget belongs to, if it is a key's."""
        try:
            zone_of(body.zone)
        except (KeyError, ValueError):
            raise InvalidValue("There is no such time zone.", "zone") from None
        if body.project_id is None:
            if body.key_id is not None:
                raise InvalidValue("A key's budget needs its project.", "project_id")
            return None
        project_id = TenantId(body.project_id)
        async with self._p.database.read() as session:
            if await self._projects.project(session, project_id) is None:
                raise NotFound("No such project.")
            if body.key_id is None:
                return None
            if await self._projects.key(session, project_id, KeyId(body.key_id)) is None:
                raise NotFound("No such API key.")
            return await self._tenancy.lineage_id(session, project_id, KeyId(body.key_id))


def _budget(view: BudgetView) -> Json:
    return {
        "object": "organization.budget",
        "id": view.id,
        "scope": view.scope,
        "project_id": view.tenant_id,
        "key_id": view.key_id,
        "period": view.period,
        "zone": view.zone,
        "limit_nanousd": view.limit_nanousd,
        "is_hard": view.is_hard,
        "created_at": unix(view.created_at),
    }
