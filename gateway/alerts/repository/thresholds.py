"""Spend alerts as rows, for the admin API: made, changed, paged by id in either direction."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from gateway.alerts.models import SpendAlert
from gateway.alerts.types import SpendAlertView
from gateway.db import ReadSession, WriteSession

__all__ = ["AlertScope", "ThresholdRepository"]


@dataclass(frozen=True, slots=True)
class AlertScope:
    """One list of alerts: of a budget; without one, of a tenant's month; without both, of the organisation's."""

    tenant_id: str | None = None
    budget_id: str | None = None

    def condition(self) -> ColumnElement[bool]:
        if self.budget_id is not None:
            return SpendAlert.budget_id == self.budget_id
        return and_(SpendAlert.budget_id.is_(None), SpendAlert.tenant_id.is_not_distinct_from(self.tenant_id))


class ThresholdRepository:
    async def insert(self, session: WriteSession, alert: SpendAlertView) -> None:
        row = insert(SpendAlert).values(
            id=alert.id,
            tenant_id=alert.tenant_id,
            budget_id=alert.budget_id,
            threshold_nanousd=alert.threshold_nanousd,
            threshold_percent=alert.threshold_percent,
            recipients=list(alert.recipients),
            subject_prefix=alert.subject_prefix,
            created_at=alert.created_at,
        )
        await session.execute(row)

    async def update(self, session: WriteSession, before: SpendAlertView, alert: SpendAlertView) -> None:
        thresholds = {
            "threshold_nanousd": alert.threshold_nanousd,
            "threshold_percent": alert.threshold_percent,
        }
        old = (before.threshold_nanousd, before.threshold_percent)
        since = {} if old == tuple(thresholds.values()) else {"updated_at": func.now()}
        changed = {
            **thresholds,
            **since,
            "recipients": list(alert.recipients),
            "subject_prefix": alert.subject_prefix,
        }
        await session.execute(update(SpendAlert).where(SpendAlert.id == alert.id).values(**changed))

    async def delete(self, session: WriteSession, alert_id: str) -> None:
        await session.execute(delete(SpendAlert).where(SpendAlert.id == alert_id))

    async def alert(self, session: ReadSession, scope: AlertScope, alert_id: str) -> SpendAlertView | None:
        row = await session.scalar(select(SpendAlert).where(SpendAlert.id == alert_id, scope.condition()))
        return _view(row) if row is not None else None

    async def locked(self, session: WriteSession, scope: AlertScope, alert_id: str) -> SpendAlertView | None:
        """For a change: the row is locked until the transaction ends."""
        query = select(SpendAlert).where(SpendAlert.id == alert_id, scope.condition())
        row = await session.scalar(query.with_for_update())
        return _view(row) if row is not None else None

    async def page(
        self,
        session: ReadSession,
        scope: AlertScope,
        *,
        after: str | None,
        before: str | None,
        ascending: bool,
        limit: int,
    ) -> list[SpendAlertView]:
        """At most `limit` in the asked order: those that follow `after`, or those that end right ahead of `before`."""
        query = select(SpendAlert).where(scope.condition())
        is_backwards = before is not None and after is None
        if after is not None:
            query = query.where(SpendAlert.id > after if ascending else SpendAlert.id < after)
        if before is not None:
            query = query.where(SpendAlert.id < before if ascending else SpendAlert.id > before)
        up = ascending != is_backwards
        query = query.order_by(SpendAlert.id.asc() if up else SpendAlert.id.desc()).limit(limit)
        rows = [_view(row) for row in await session.scalars(query)]
        return rows[::-1] if is_backwards else rows


def _view(row: SpendAlert) -> SpendAlertView:
    return SpendAlertView(
        row.id,
        row.tenant_id,
        row.budget_id,
        row.threshold_nanousd,
        row.threshold_percent,
        tuple(row.recipients),
        row.subject_prefix,
        row.created_at,
    )
