"""Spend alerts, as both of their resources change and show them: OpenAI's and the budgets' own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from fastapi import Request
from pydantic import Field

from gateway.alerts.repository.thresholds import AlertScope, ThresholdRepository
from gateway.alerts.types import SpendAlertView
from gateway.db import ReadSession, WriteSession
from gateway.errors import NotFound
from gateway.http.admin.common import AdminParts, Json, Page, page_of, record

__all__ = ["Address", "AlertBooks", "Cursor", "Order", "Prefix", "turned_page"]

# One plain address each: no header could be made of it, no list, no display name, nothing that needs quoting.
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_ADDRESS = rf"^{_ATOM}(\.{_ATOM})*@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*$"
Address = Annotated[str, Field(max_length=254, pattern=_ADDRESS)]
Prefix = Annotated[str, Field(max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$")]
Order = Literal["asc", "desc"]


@dataclass(frozen=True, slots=True)
class Cursor:
    """Which page of a list is wanted."""

    limit: int
    after: str | None = None
    before: str | None = None
    order: Order = "desc"

    @property
    def is_backwards(self) -> bool:
        return self.before is not None and self.after is None


class AlertBooks:
    """What both resources do: alerts of one scope, each change with its audit row."""

    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._alerts = ThresholdRepository()

    async def create(self, session: WriteSession, request: Request, alert: SpendAlertView) -> None:
        await self._alerts.insert(session, alert)
        await self._record(session, request, alert, "created", {"after": _facts(alert)})

    async def page(self, session: ReadSession, scope: AlertScope, cursor: Cursor) -> list[SpendAlertView]:
        """One more than the page when there is more."""
        return await self._alerts.page(
            session,
            scope,
            after=cursor.after,
            before=cursor.before,
            ascending=cursor.order == "asc",
            limit=cursor.limit + 1,
        )

    async def retrieve(self, session: ReadSession, scope: AlertScope, alert_id: str) -> SpendAlertView:
        return _found(await self._alerts.alert(session, scope, alert_id))

    async def update(
        self, session: WriteSession, request: Request, scope: AlertScope, wanted: SpendAlertView
    ) -> SpendAlertView:
        """`wanted` is complete but for when the alert was made."""
        before = _found(await self._alerts.locked(session, scope, wanted.id))
        alert = replace(wanted, created_at=before.created_at)
        if alert != before:
            await self._alerts.update(session, before, alert)
            details = {"before": _facts(before), "after": _facts(alert)}
            await self._record(session, request, alert, "updated", details)
        return alert

    async def delete(self, session: WriteSession, request: Request, scope: AlertScope, alert_id: str) -> None:
        alert = _found(await self._alerts.locked(session, scope, alert_id))
        await self._alerts.delete(session, alert_id)
        await self._record(session, request, alert, "deleted", {"before": _facts(alert)})

    async def _record(
        self, session: WriteSession, request: Request, alert: SpendAlertView, verb: str, details: Json
    ) -> None:
        resource = ("spend_alert", alert.id)
        await record(self._p, session, request, f"spend_alert.{verb}", resource, alert.tenant_id, details)


def turned_page(rows: Sequence[Json], cursor: Cursor) -> Page:
    """Read backwards, the row too many is the first one, not the last."""
    if not cursor.is_backwards:
        return page_of(rows, cursor.limit)
    return {**page_of(rows[-cursor.limit :], cursor.limit), "has_more": len(rows) > cursor.limit}


def _found(alert: SpendAlertView | None) -> SpendAlertView:
    if alert is None:
        raise NotFound("No such spend alert.")
    return alert


def _facts(alert: SpendAlertView) -> Json:
    """What the audit log keeps of it."""
    return {
        "budget_id": alert.budget_id,
        "threshold_nanousd": alert.threshold_nanousd,
        "threshold_percent": alert.threshold_percent,
        "recipients": [*alert.recipients],
        "subject_prefix": alert.subject_prefix,
    }
