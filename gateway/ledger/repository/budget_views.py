"""Budgets as the admin API makes, changes and shows them. Keyset-paged, newest first.

What a budget counts is written by reserve and settle alone, with one exception: a budget that is made in the middle
of a period takes over what its scope has spent in it and what requests in flight still hold.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, exists, func, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert

from gateway.db import ReadSession, WriteSession
from gateway.ledger.models import Budget, BudgetPeriod, BudgetRefusal
from gateway.ledger.periods import Period, period_bounds, period_key, zone_of
from gateway.ledger.types import BudgetKey

__all__ = ["BudgetRepository", "BudgetView", "PeriodCounts"]

# One statement, one snapshot: an event is either still in the outbox or in the rollups.
_SPENT_SO_FAR = text(
    """
    SELECT CAST(coalesce(sum(amount_nanousd), 0) AS bigint) FROM (
        SELECT tenant_id, key_id, amount_nanousd FROM rollup_minute
        WHERE bucket >= :starts_at AND bucket < :first_hour
        UNION ALL
        SELECT tenant_id, key_id, amount_nanousd FROM rollup_hour
        WHERE bucket >= :first_hour AND bucket < :ends_at
        UNION ALL
        SELECT e.tenant_id, e.key_id, e.amount_nanousd FROM outbox o JOIN usage_event e
            ON e.occurred_at = CAST(o.payload ->> 'occurred_at' AS timestamptz)
            AND e.event_id = CAST(o.payload ->> 'event_id' AS uuid)
        WHERE o.topic = 'usage' AND e.occurred_at >= :starts_at AND e.occurred_at < :ends_at
    ) spend
    WHERE (CAST(:tenant_id AS text) IS NULL OR tenant_id = :tenant_id)
        AND (CAST(:key_id AS text) IS NULL OR key_id = :key_id)
    """
)
# In one order, so that two budgets made at once wait for each other and do not deadlock.
_JOIN_HOLDS = text(
    """
    WITH open AS (
        SELECT request_id FROM hold
        WHERE (CAST(:tenant_id AS text) IS NULL OR tenant_id = :tenant_id)
            AND (CAST(:key_id AS text) IS NULL OR key_id = :key_id)
        ORDER BY request_id FOR UPDATE
    ), joined AS (
        UPDATE hold h SET takes = h.takes || jsonb_build_array(jsonb_build_object(
            'budget_id', CAST(:budget_id AS text), 'period_key', CAST(:period_key AS text),
            'amount_nanousd', h.amount_nanousd))
        FROM open WHERE h.request_id = open.request_id RETURNING h.amount_nanousd
    )
    SELECT CAST(coalesce(sum(amount_nanousd), 0) AS bigint) FROM joined
    """
)


@dataclass(frozen=True, slots=True)
class BudgetView:
    id: str
    scope: str
    tenant_id: str | None
    key_id: str | None
    period: Period
    zone: str
    limit_nanousd: int
    is_hard: bool
    created_at: datetime

    def key_at(self, at: datetime) -> BudgetKey:
        return BudgetKey(self.id, period_key(self.period, zone_of(self.zone), at))

    def bounds_at(self, at: datetime) -> tuple[datetime, datetime] | None:
        """[start, end) of the period of `at`; None for a prepaid budget, which has only one."""
        return None if self.period == "prepaid" else period_bounds(self.period, zone_of(self.zone), at)


@dataclass(frozen=True, slots=True)
class PeriodCounts:
    key: str
    held_nanousd: int
    spent_nanousd: int
    is_refusing: bool = False
    """A request was refused for what is spent under the present limit."""


class BudgetRepository:
    async def insert(self, session: WriteSession, budget: BudgetView) -> bool:
        """False if the scope has a budget of that period already."""
        statement = insert(Budget).values(
            id=budget.id,
            scope=budget.scope,
            tenant_id=budget.tenant_id,
            key_id=budget.key_id,
            period=budget.period,
            zone=budget.zone,
            limit_nanousd=budget.limit_nanousd,
            is_hard=budget.is_hard,
            created_at=budget.created_at,
        )
        written = await session.execute(statement.on_conflict_do_nothing().returning(Budget.id))
        return written.first() is not None

    async def knows_zone(self, session: ReadSession, zone: str) -> bool:
        """As the table's trigger asks."""
        found = await session.scalar(
            text("SELECT true FROM pg_timezone_names WHERE name = :zone"), {"zone": zone}
        )
        return bool(found)

    async def take_over(self, session: WriteSession, budget: BudgetView, now: datetime) -> None:
        """What the scope has spent in the running period, and holds, counts under the new budget. First the holds:
        one that settles meanwhile is either joined, or its event is seen by the sum. What is admitted in this very instant may be missed. Prepaid money is new money."""
        bounds = budget.bounds_at(now)
        if bounds is None:
            return
        starts_at, ends_at = bounds
        scope = {"tenant_id": budget.tenant_id, "key_id": budget.key_id}
        key = budget.key_at(now)
        held = await session.scalar(_JOIN_HOLDS, {**scope, **key._asdict()})
        window = {"starts_at": starts_at, "first_hour": _next_hour(starts_at), "ends_at": ends_at}
        spent = await session.scalar(_SPENT_SO_FAR, {**scope, **window})
        row = insert(BudgetPeriod).values(**key._asdict(), held_nanousd=held, spent_nanousd=spent)
        await session.execute(row)

    async def update(self, session: WriteSession, budget_id: str, limit_nanousd: int, is_hard: bool) -> None:
        changed = {"limit_nanousd": limit_nanousd, "is_hard": is_hard, "updated_at": func.now()}
        await session.execute(update(Budget).where(Budget.id == budget_id).values(**changed))

    async def delete(self, session: WriteSession, budget_id: str) -> None:
        """What was counted under it stays, and holds that took from it still settle there."""
        await session.execute(delete(Budget).where(Budget.id == budget_id))

    async def budget(self, session: ReadSession, budget_id: str) -> BudgetView | None:
        row = await session.get(Budget, budget_id)
        return _budget(row) if row is not None else None

    async def locked(self, session: WriteSession, budget_id: str) -> BudgetView | None:
        """For a change: the row is locked until the transaction ends."""
        row = await session.scalar(select(Budget).where(Budget.id == budget_id).with_for_update())
        return _budget(row) if row is not None else None

    async def of_scope(
        self, session: ReadSession | WriteSession, tenant_id: str | None, key_id: str | None, period: Period
    ) -> BudgetView | None:
        query = select(Budget).where(
            Budget.tenant_id.is_not_distinct_from(tenant_id),
            Budget.key_id.is_not_distinct_from(key_id),
            Budget.period == period,
        )
        row = await session.scalar(query)
        return _budget(row) if row is not None else None

    async def page(
        self, session: ReadSession, tenant_id: str | None, scope: str | None, after: str | None, limit: int
    ) -> list[BudgetView]:
        query = select(Budget).order_by(Budget.id.desc()).limit(limit)
        if tenant_id is not None:
            query = query.where(Budget.tenant_id == tenant_id)
        if scope is not None:
            query = query.where(Budget.scope == scope)
        if after is not None:
            query = query.where(Budget.id < after)
        return [_budget(row) for row in await session.scalars(query)]

    async def counts(
        self, session: ReadSession | WriteSession, keys: Collection[BudgetKey]
    ) -> dict[BudgetKey, PeriodCounts]:
        """Of the periods in which something was counted."""
        wanted = tuple_(BudgetPeriod.budget_id, BudgetPeriod.period_key).in_(sorted(keys))
        is_refusing = exists().where(
            BudgetRefusal.budget_id == Budget.id,
            BudgetRefusal.period_key == BudgetPeriod.period_key,
            BudgetRefusal.limit_nanousd == Budget.limit_nanousd,
            Budget.is_hard,
        )
        query = (
            select(BudgetPeriod, is_refusing).join(Budget, Budget.id == BudgetPeriod.budget_id).where(wanted)
        )
        return {
            BudgetKey(row.budget_id, row.period_key): _counts(row, refuses)
            for row, refuses in await session.execute(query)
        }

    async def periods(
        self, session: ReadSession, budget_id: str, after: str | None, limit: int
    ) -> list[PeriodCounts]:
        query = select(BudgetPeriod).where(BudgetPeriod.budget_id == budget_id)
        if after is not None:
            query = query.where(BudgetPeriod.period_key < after)
        rows = await session.scalars(query.order_by(BudgetPeriod.period_key.desc()).limit(limit))
        return [_counts(row) for row in rows]


def _next_hour(at: datetime) -> datetime:
    """`at` itself if it is a full hour: some zones' midnights are not."""
    return at if at == at.replace(minute=0) else at.replace(minute=0) + timedelta(hours=1)


def _counts(row: BudgetPeriod, is_refusing: bool = False) -> PeriodCounts:
    return PeriodCounts(row.period_key, row.held_nanousd, row.spent_nanousd, is_refusing)


def _budget(row: Budget) -> BudgetView:
    return BudgetView(
        row.id,
        row.scope,
        row.tenant_id,
        row.key_id,
        _period(row.period),
        row.zone,
        row.limit_nanousd,
        row.is_hard,
        row.created_at,
    )


def _period(name: str) -> Period:
    known: dict[str, Period] = {
        "daily": "daily",
        "weekly": "weekly",
        "monthly": "monthly",
        "prepaid": "prepaid",
    }
    return known[name]
