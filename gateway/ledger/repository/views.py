"""The admin API's readings of the ledger, and the budgets that it sets. Keyset-paged, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import func, select, tuple_
from sqlalchemy.dialects.postgresql import insert

from gateway.db import ReadSession, WriteSession
from gateway.ledger.models import Budget, BudgetPeriod, UsageEvent

__all__ = ["BudgetView", "EventCursor", "EventFilter", "LedgerViews"]


@dataclass(frozen=True, slots=True)
class BudgetView:
    id: str
    scope: str
    tenant_id: str | None
    key_id: str | None
    period: str
    zone: str
    limit_nanousd: int
    is_hard: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class EventCursor:
    occurred_at: datetime
    event_id: UUID


@dataclass(frozen=True, slots=True)
class EventFilter:
    tenant_id: str | None = None
    request_id: str | None = None
    served_model: str | None = None


class LedgerViews:
    async def events(
        self, session: ReadSession, wanted: EventFilter, before: EventCursor | None, limit: int
    ) -> Sequence[UsageEvent]:
        query = (
            select(UsageEvent)
            .order_by(UsageEvent.occurred_at.desc(), UsageEvent.event_id.desc())
            .limit(limit)
        )
        if wanted.tenant_id is not None:
            query = query.where(UsageEvent.tenant_id == wanted.tenant_id)
        if wanted.request_id is not None:
            query = query.where(UsageEvent.request_id == wanted.request_id)
        if wanted.served_model is not None:
            query = query.where(UsageEvent.served_model == wanted.served_model)
        if before is not None:
            key = tuple_(UsageEvent.occurred_at, UsageEvent.event_id)
            query = query.where(key < (before.occurred_at, before.event_id))
        return (await session.scalars(query)).all()

    async def budgets(self, session: ReadSession, tenant_id: str | None) -> list[BudgetView]:
        query = select(Budget).order_by(Budget.id.desc())
        if tenant_id is not None:
            query = query.where(Budget.tenant_id == tenant_id)
        return [_budget(row) for row in await session.scalars(query)]

    async def spent(self, session: ReadSession, budget_id: str) -> dict[str, tuple[int, int]]:
        """Per period: held and spent."""
        rows = await session.scalars(select(BudgetPeriod).where(BudgetPeriod.budget_id == budget_id))
        return {row.period_key: (row.held_nanousd, row.spent_nanousd) for row in rows}

    async def put_budget(self, session: WriteSession, budget: BudgetView) -> str:
        """One per scope and period: a second one changes the first, whose id stays."""
        changed = {
            "limit_nanousd": budget.limit_nanousd,
            "is_hard": budget.is_hard,
            "zone": budget.zone,
            "updated_at": func.now(),
        }
        statement = insert(Budget).values(
            id=budget.id,
            scope=budget.scope,
            tenant_id=budget.tenant_id,
            key_id=budget.key_id,
            period=budget.period,
            zone=budget.zone,
            limit_nanousd=budget.limit_nanousd,
            is_hard=budget.is_hard,
        )
        scope = [Budget.scope, Budget.tenant_id, Budget.key_id, Budget.period]
        written = await session.execute(
            statement.on_conflict_do_update(index_elements=scope, set_=changed).returning(Budget.id)
        )
        return str(written.scalar_one())


def _budget(row: Budget) -> BudgetView:
    return BudgetView(
        row.id,
        row.scope,
        row.tenant_id,
        row.key_id,
        row.period,
        row.zone,
        row.limit_nanousd,
        row.is_hard,
        row.created_at,
    )
