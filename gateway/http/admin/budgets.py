"""Budgets: how much a project, a key or the organisation may spend in a period, and how it stands.

A change takes effect with the next reservation on every gateway. OpenAI's spend limits are views on the monthly ones
(spend_limits.py). What a prepaid budget is filled with is a credit (credits.py), not a change of its limit.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field

from gateway.db import ReadSession, WriteSession
from gateway.errors import Conflict, InvalidValue, NotFound
from gateway.http.admin.common import (
    AdminParts,
    After,
    Body,
    Json,
    Limit,
    Page,
    in_transaction,
    page_of,
    record,
    unix,
)
from gateway.ids import KeyId, TenantId
from gateway.ledger.budget_state import BudgetState, consequence
from gateway.ledger.errors import LIMIT_MAX_NANOUSD
from gateway.ledger.periods import zone_of
from gateway.ledger.repository.budget_views import BudgetRepository, BudgetView, PeriodCounts
from gateway.tenancy.projects.repository import ProjectRepository
from gateway.tenancy.repository import TenancyRepository

__all__ = ["BudgetBooks", "BudgetRoutes"]

Nanousd = Annotated[int, Field(ge=0, le=LIMIT_MAX_NANOUSD)]
Scope = Literal["organization", "tenant", "key"]


class BudgetBody(Body):
    """Without a project it is the organisation's; with a key it is that key's, whatever its secret is rotated to."""

    project_id: str | None = None
    key_id: str | None = None
    period: Literal["daily", "weekly", "monthly", "prepaid"]
    limit_nanousd: Nanousd
    is_hard: bool = True
    zone: str = Field(default="UTC", max_length=64)


class BudgetChange(Body):
    """Scope, period and zone stay what they are: another one is another budget."""

    limit_nanousd: Nanousd | None = None
    is_hard: bool | None = None


class BudgetBooks:
    """Changes of budgets, each with its audit row: shared with the views that OpenAI's names give on them."""

    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self.repository = BudgetRepository()

    async def create(self, session: WriteSession, request: Request, budget: BudgetView) -> BudgetState:
        if not await self.repository.insert(session, budget):
            raise Conflict(f"The scope has a {budget.period} budget already: change that one.")
        await self.repository.take_over(session, budget, self._p.clock.now())
        await self._record(session, request, budget, "created", {"after": _facts(budget)})
        return await self.state(session, budget)

    async def change(
        self, session: WriteSession, request: Request, budget: BudgetView, changed: BudgetView
    ) -> None:
        if changed == budget:
            return
        await self.repository.update(session, budget.id, changed.limit_nanousd, changed.is_hard)
        details = {"before": _facts(budget), "after": _facts(changed)}
        await self._record(session, request, budget, "updated", details)

    async def delete(self, session: WriteSession, request: Request, budget: BudgetView) -> None:
        await self.repository.delete(session, budget.id)
        await self._record(session, request, budget, "deleted", {"before": _facts(budget)})

    async def state(self, session: ReadSession | WriteSession, budget: BudgetView) -> BudgetState:
        [state] = await self.states(session, [budget])
        return state

    async def states(
        self, session: ReadSession | WriteSession, budgets: list[BudgetView]
    ) -> list[BudgetState]:
        now = self._p.clock.now()
        keys = [budget.key_at(now) for budget in budgets]
        counts = await self.repository.counts(session, keys) if keys else {}
        nothing = PeriodCounts("", 0, 0)
        return [
            _state(budget, key.period_key, budget.bounds_at(now), counts.get(key, nothing))
            for budget, key in zip(budgets, keys, strict=True)
        ]

    async def _record(
        self, session: WriteSession, request: Request, budget: BudgetView, verb: str, details: Json
    ) -> None:
        resource = ("budget", budget.id)
        await record(self._p, session, request, f"budget.{verb}", resource, budget.tenant_id, details)


class BudgetRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._books = BudgetBooks(parts)
        self._projects = ProjectRepository()
        self._tenancy = TenancyRepository()

    def register(self, router: APIRouter) -> None:
        one = "/budgets/{budget_id}"
        router.add_api_route("/budgets", self.create, methods=["POST"])
        router.add_api_route("/budgets", self.list, methods=["GET"])
        router.add_api_route(one, self.retrieve, methods=["GET"])
        router.add_api_route(one, self.update, methods=["POST"])
        router.add_api_route(one, self.delete, methods=["DELETE"])
        router.add_api_route(f"{one}/periods", self.periods, methods=["GET"])

    async def create(self, request: Request, body: BudgetBody) -> Json:
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
        state = await in_transaction(
            self._p.database, lambda session: self._books.create(session, request, budget)
        )
        return {**_budget(budget, state), "consequence": consequence(None, state)}

    async def list(
        self,
        project_id: Annotated[str | None, Query(max_length=200)] = None,
        scope: Scope | None = None,
        limit: Limit = 20,
        after: After = None,
    ) -> Page:
        async with self._p.database.read() as session:
            rows = await self._books.repository.page(session, project_id, scope, after, limit + 1)
            states = await self._books.states(session, rows)
        return page_of([_budget(*pair) for pair in zip(rows, states, strict=True)], limit)

    async def retrieve(self, budget_id: str) -> Json:
        async with self._p.database.read() as session:
            budget = _found(await self._books.repository.budget(session, budget_id))
            return _budget(budget, await self._books.state(session, budget))

    async def update(self, request: Request, budget_id: str, body: BudgetChange) -> Json:
        async with self._p.database.write() as session:
            budget = _found(await self._books.repository.locked(session, budget_id))
            if budget.period == "prepaid" and body.limit_nanousd not in (None, budget.limit_nanousd):
                raise InvalidValue(
                    "A prepaid budget's limit is what has been paid in: change it by a credit.",
                    "limit_nanousd",
                )
            before = await self._books.state(session, budget)
            changed = _changed(budget, body.limit_nanousd, body.is_hard)
            await self._books.change(session, request, budget, changed)
            state = await self._books.state(session, changed)
        return {**_budget(changed, state), "consequence": consequence(before, state)}

    async def delete(self, request: Request, budget_id: str) -> Json:
        async with self._p.database.write() as session:
            budget = _found(await self._books.repository.locked(session, budget_id))
            await self._books.delete(session, request, budget)
        return {"object": "organization.budget.deleted", "id": budget_id, "deleted": True}

    async def periods(self, budget_id: str, limit: Limit = 20, after: After = None) -> Page:
        """Newest first; those in which nothing was counted have no row."""
        async with self._p.database.read() as session:
            _found(await self._books.repository.budget(session, budget_id))
            rows = await self._books.repository.periods(session, budget_id, after, limit + 1)
        return page_of([_period(row) for row in rows], limit)

    async def _check(self, body: BudgetBody) -> KeyId | None:
        """The key whose whole chain of rotations the budget belongs to, if it is a key's."""
        try:
            zone_of(body.zone)
        except (KeyError, ValueError, OSError):  # the name of a directory of zones is an OSError
            raise _no_such_zone() from None
        async with self._p.database.read() as session:
            if not await self._books.repository.knows_zone(session, body.zone):
                raise _no_such_zone()
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


def _no_such_zone() -> InvalidValue:
    """To this machine, or to the database: both reckon with it, and their names are not the same."""
    return InvalidValue("There is no such time zone.", "zone")


def _found(budget: BudgetView | None) -> BudgetView:
    if budget is None:
        raise NotFound("No such budget.")
    return budget


def _changed(budget: BudgetView, limit_nanousd: int | None, is_hard: bool | None) -> BudgetView:
    return replace(
        budget,
        limit_nanousd=budget.limit_nanousd if limit_nanousd is None else limit_nanousd,
        is_hard=budget.is_hard if is_hard is None else is_hard,
    )


def _state(
    budget: BudgetView, period_key: str, bounds: tuple[datetime, datetime] | None, counts: PeriodCounts
) -> BudgetState:
    starts_at, ends_at = bounds or (None, None)
    return BudgetState(
        budget.limit_nanousd,
        budget.is_hard,
        period_key,
        starts_at,
        ends_at,
        counts.held_nanousd,
        counts.spent_nanousd,
        counts.is_refusing,
    )


def _facts(budget: BudgetView) -> Json:
    """What the audit log keeps of it."""
    return {
        "project_id": budget.tenant_id,
        "key_id": budget.key_id,
        "period": budget.period,
        "zone": budget.zone,
        "limit_nanousd": budget.limit_nanousd,
        "is_hard": budget.is_hard,
    }


def _budget(budget: BudgetView, state: BudgetState) -> Json:
    return {
        "object": "organization.budget",
        "id": budget.id,
        "scope": budget.scope,
        **_facts(budget),
        "current_period": {
            "id": state.period_key,
            "starts_at": unix(state.starts_at),
            "ends_at": unix(state.ends_at),
            "held_nanousd": state.held_nanousd,
            "spent_nanousd": state.spent_nanousd,
            "remaining_nanousd": state.remaining_nanousd,
            "is_exhausted": state.is_exhausted,
        },
        "created_at": unix(budget.created_at),
    }


def _period(counts: PeriodCounts) -> Json:
    return {
        "object": "organization.budget.period",
        "id": counts.key,
        "held_nanousd": counts.held_nanousd,
        "spent_nanousd": counts.spent_nanousd,
    }
