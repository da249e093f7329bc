"""Credits and adjustments: what an operator does to the money by hand, with a reason, once per idempotency key.

A credit lets a project pay less, or pays into a prepaid budget; an adjustment changes what one settled request cost,
as a new event that corrects the first. Nothing that was written is changed. The key is the entry's id.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field

from gateway.db import WriteSession
from gateway.errors import InvalidValue, MissingParameter, NotFound
from gateway.http.admin.common import (
    AdminParts,
    After,
    Body,
    Json,
    Limit,
    Page,
    actor_of,
    page_of,
    record,
    unix,
)
from gateway.http.admin.cursor import cursor_text
from gateway.http.admin.events import PREFIX as EVENT_PREFIX
from gateway.ids import RequestId, TenantId
from gateway.ledger.adjusting import Adjuster, Adjustment, Credit, TopUp
from gateway.ledger.repository.entry_views import EntryViews
from gateway.ledger.repository.requests import EventCursor
from gateway.ledger.types import Entry
from gateway.tenancy.projects.repository import ProjectRepository

__all__ = ["EntryRoutes"]

AMOUNT_MAX = 1 << 53
"""Nine million dollars: exact in doubles too, and the sums of a thousand of them are a bigint still."""
Amount = Annotated[int, Field(ge=-AMOUNT_MAX, le=AMOUNT_MAX)]
Key = Annotated[str, Field(pattern=r"^[A-Za-z0-9._:-]{1,128}$")]
Reason = Annotated[str, Field(min_length=1, max_length=1000)]
CREDITS, ADJUSTMENTS = ("credit", "top_up"), ("adjustment",)
Filter = Annotated[str | None, Query(max_length=200)]


class CreditBody(Body):
    """With a budget it pays into that prepaid budget (a negative amount takes back); else the project pays less."""

    project_id: str | None = None
    budget_id: str | None = None
    amount_nanousd: Amount
    reason: Reason
    idempotency_key: Key


class AdjustmentBody(Body):
    """`amount_nanousd` more for the request `corrects`; negative is a refund of at most what it cost."""

    project_id: str
    corrects: str = Field(max_length=200)
    amount_nanousd: Amount
    reason: Reason
    idempotency_key: Key


class EntryRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._adjuster = Adjuster(parts.clock, parts.ids)
        self._views = EntryViews()
        self._projects = ProjectRepository()

    def register(self, router: APIRouter) -> None:
        router.add_api_route("/credits", self.credit, methods=["POST"])
        router.add_api_route("/credits", self.credits, methods=["GET"])
        router.add_api_route("/credits/{credit_id}", self.retrieve_credit, methods=["GET"])
        router.add_api_route("/adjustments", self.adjust, methods=["POST"])
        router.add_api_route("/adjustments", self.adjustments, methods=["GET"])
        router.add_api_route("/adjustments/{adjustment_id}", self.retrieve_adjustment, methods=["GET"])

    async def credit(self, request: Request, body: CreditBody) -> Json:
        if (body.project_id is None) == (body.budget_id is None):
            raise MissingParameter("project_id or budget_id, one of the two")
        _refuse_zero(body.amount_nanousd)
        if body.budget_id is not None:
            top_up = TopUp(
                body.idempotency_key, body.budget_id, body.amount_nanousd, body.reason, _by(request)
            )
            return await self._write(request, lambda session: self._adjuster.top_up(session, top_up))
        if body.amount_nanousd < 0:
            raise InvalidValue("A project's credit is positive.", "amount_nanousd")
        tenant_id = await self._project(str(body.project_id))
        credit = Credit(body.idempotency_key, tenant_id, body.amount_nanousd, body.reason, _by(request))
        return await self._write(request, lambda session: self._adjuster.credit(session, credit))

    async def adjust(self, request: Request, body: AdjustmentBody) -> Json:
        _refuse_zero(body.amount_nanousd)
        adjustment = Adjustment(
            body.idempotency_key,
            await self._project(body.project_id),
            RequestId(body.corrects),
            body.amount_nanousd,
            body.reason,
            _by(request),
        )
        return await self._write(request, lambda session: self._adjuster.adjust(session, adjustment))

    async def credits(self, project_id: Filter = None, limit: Limit = 20, after: After = None) -> Page:
        return await self._page(CREDITS, project_id, limit, after)

    async def adjustments(self, project_id: Filter = None, limit: Limit = 20, after: After = None) -> Page:
        return await self._page(ADJUSTMENTS, project_id, limit, after)

    async def retrieve_credit(self, credit_id: str) -> Json:
        return await self._retrieve(CREDITS, credit_id)

    async def retrieve_adjustment(self, adjustment_id: str) -> Json:
        return await self._retrieve(ADJUSTMENTS, adjustment_id)

    async def _write(self, request: Request, act: Callable[[WriteSession], Awaitable[Entry]]) -> Json:
        """A repeated call changes nothing, so it leaves no audit row."""
        async with self._p.database.write() as session:
            entry = await act(session)
            if not entry.is_repeated:
                shown = _entry(entry)
                resource, details = (entry.kind, entry.idempotency_key), {"after": shown}
                await record(
                    self._p, session, request, f"{entry.kind}.created", resource, entry.tenant_id, details
                )
        return _entry(entry)

    async def _page(
        self, kinds: tuple[str, ...], project_id: str | None, limit: int, after: str | None
    ) -> Page:
        async with self._p.database.read() as session:
            rows = await self._views.page(session, kinds, project_id, after, limit + 1)
        return page_of([_entry(row) for row in rows], limit)

    async def _retrieve(self, kinds: tuple[str, ...], key: str) -> Json:
        async with self._p.database.read() as session:
            found = await self._views.entry(session, kinds, key)
        if found is None:
            raise NotFound("No such entry.")
        return _entry(found)

    async def _project(self, project_id: str) -> TenantId:
        async with self._p.database.read() as session:
            if await self._projects.project(session, TenantId(project_id)) is None:
                raise NotFound("No such project.")
        return TenantId(project_id)


def _by(request: Request) -> str:
    return actor_of(request).id


def _refuse_zero(amount_nanousd: int) -> None:
    if amount_nanousd == 0:
        raise InvalidValue("An entry of nothing changes nothing.", "amount_nanousd")


def _entry(entry: Entry) -> Json:
    """The amount is what the project or the budget gets for a credit, and what the request costs more else."""
    is_adjustment = entry.kind == "adjustment"
    about = {"corrects": entry.request_id} if is_adjustment else {"budget_id": entry.budget_id}
    event_id = None
    if entry.event_id is not None:
        event_id = cursor_text(EVENT_PREFIX, EventCursor(entry.occurred_at, entry.event_id))
    return {
        "object": "organization.adjustment" if is_adjustment else "organization.credit",
        "id": entry.idempotency_key,
        "project_id": entry.tenant_id,
        **about,
        "amount_nanousd": -entry.amount_nanousd if entry.kind == "credit" else entry.amount_nanousd,
        "reason": entry.reason,
        "usage_event_id": event_id,
        "created_by": entry.created_by,
        "created_at": unix(entry.occurred_at),
    }
