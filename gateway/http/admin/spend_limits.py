"""OpenAI's spend limits of a project and of the organisation: views on their monthly hard budgets, in US cents.

Setting one makes or changes that budget (a soft one becomes hard), deleting it deletes the budget. A budget of another
period, or a soft one, is no spend limit and is not seen here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from fastapi import APIRouter, Request
from pydantic import Field

from gateway.db import ReadSession, WriteSession
from gateway.errors import Conflict, NotFound
from gateway.http.admin.budgets import BudgetBooks
from gateway.http.admin.common import AdminParts, Body, Json, in_transaction
from gateway.ledger.budget_state import BudgetState
from gateway.ledger.repository.budget_views import BudgetView
from gateway.money import NANOUSD_PER_CENT

__all__ = ["Cents", "SpendLimitRoutes"]

CENTS_MAX = (1 << 62) // NANOUSD_PER_CENT
Cents = Annotated[int, Field(ge=0, le=CENTS_MAX)]


class SpendLimitBody(Body):
    currency: Literal["USD"]
    interval: Literal["month"]
    threshold_amount: Cents


class SpendLimitRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._books = BudgetBooks(parts)

    def register(self, router: APIRouter) -> None:
        project = "/projects/{project_id}/spend_limit"
        router.add_api_route("/spend_limit", self.retrieve, methods=["GET"])
        router.add_api_route("/spend_limit", self.set, methods=["POST"])
        router.add_api_route("/spend_limit", self.delete, methods=["DELETE"])
        router.add_api_route(project, self.retrieve_of_project, methods=["GET"])
        router.add_api_route(project, self.set_of_project, methods=["POST"])
        router.add_api_route(project, self.delete_of_project, methods=["DELETE"])

    async def retrieve(self) -> Json:
        return await self._retrieve(None)

    async def set(self, request: Request, body: SpendLimitBody) -> Json:
        return await self._set(request, None, body)

    async def delete(self, request: Request) -> Json:
        return await self._delete(request, None)

    async def retrieve_of_project(self, project_id: str) -> Json:
        return await self._retrieve(project_id)

    async def set_of_project(self, request: Request, project_id: str, body: SpendLimitBody) -> Json:
        return await self._set(request, project_id, body)

    async def delete_of_project(self, request: Request, project_id: str) -> Json:
        return await self._delete(request, project_id)

    async def _retrieve(self, project_id: str | None) -> Json:
        async with self._p.database.read() as session:
            budget = await self._hard(session, project_id)
            state = await self._books.state(session, budget)
        return _limit(budget, state)

    async def _set(self, request: Request, project_id: str | None, body: SpendLimitBody) -> Json:
        limit_nanousd = body.threshold_amount * NANOUSD_PER_CENT

        async def put(session: WriteSession) -> Json:
            found = await self._monthly(session, project_id)
            if found is None:
                budget = self._new(project_id, limit_nanousd)
                try:
                    return _limit(budget, await self._books.create(session, request, budget))
                except Conflict:  # another call made it meanwhile: this one changes it
                    found = await self._monthly(session, project_id)
                    if found is None:
                        raise
            budget = replace(found, limit_nanousd=limit_nanousd, is_hard=True)
            await self._books.change(session, request, found, budget)
            return _limit(budget, await self._books.state(session, budget))

        return await in_transaction(self._p.database, put)

    async def _delete(self, request: Request, project_id: str | None) -> Json:
        async with self._p.database.write() as session:
            await self._books.delete(session, request, await self._hard(session, project_id))
        return {"object": f"{_owner(project_id)}.spend_limit.deleted", "deleted": True}

    async def _monthly(self, session: WriteSession, project_id: str | None) -> BudgetView | None:
        """Locked for a change."""
        found = await self._books.repository.of_scope(session, project_id, None, "monthly")
        return await self._books.repository.locked(session, found.id) if found is not None else None

    async def _hard(self, session: ReadSession | WriteSession, project_id: str | None) -> BudgetView:
        budget = await self._books.repository.of_scope(session, project_id, None, "monthly")
        if budget is None or not budget.is_hard:
            raise NotFound("There is no spend limit.")
        return budget

    def _new(self, project_id: str | None, limit_nanousd: int) -> BudgetView:
        return BudgetView(
            id=self._p.ids.new("budget"),
            scope="tenant" if project_id is not None else "organization",
            tenant_id=project_id,
            key_id=None,
            period="monthly",
            zone="UTC",
            limit_nanousd=limit_nanousd,
            is_hard=True,
            created_at=self._p.clock.now(),
        )


def _owner(project_id: str | None) -> str:
    return "project" if project_id is not None else "organization"


def _limit(budget: BudgetView, state: BudgetState) -> Json:
    """A budget of our own making may hold part of a cent, which is not shown."""
    return {
        "object": f"{_owner(budget.tenant_id)}.spend_limit",
        "currency": "USD",
        "interval": "month",
        "threshold_amount": budget.limit_nanousd // NANOUSD_PER_CENT,
        "enforcement": {"status": "enforcing" if state.is_exhausted else "inactive"},
    }
