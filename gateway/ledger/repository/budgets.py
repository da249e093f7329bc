"""Budgets: which limits apply, and the rows that count them, locked in key order.

Key order is (budget_id, period_key) by byte value, in every process: two batches that share rows take them in the
same order and cannot deadlock.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text

from gateway.db import WriteConnection
from gateway.ledger.decide import BudgetRow
from gateway.ledger.periods import Period, period_key, zone_of
from gateway.ledger.types import BudgetKey
from gateway.ledger.used_up import Refused

__all__ = [
    "BudgetLimit",
    "Limits",
    "create_rows",
    "hard_scopes",
    "limits_of",
    "lock_rows",
    "note_refusals",
    "spend",
]

_LIMITS = text(
    """
    SELECT feed.revision, b.id, b.scope, b.tenant_id, b.key_id, b.period, b.zone, b.limit_nanousd, b.is_hard
    FROM config_revision feed LEFT JOIN budget b ON b.scope = 'organization'
        OR (b.scope = 'tenant' AND b.tenant_id = ANY(CAST(:tenant_ids AS text[])))
        OR (b.scope = 'key' AND b.tenant_id = ANY(CAST(:tenant_ids AS text[]))
            AND b.key_id = ANY(CAST(:key_ids AS text[])))
    WHERE feed.topic = 'budget'
    """
)
_CREATE = text(
    """
    INSERT INTO budget_period (budget_id, period_key)
    SELECT * FROM unnest(CAST(:budget_ids AS text[]), CAST(:period_keys AS text[]))
    ON CONFLICT DO NOTHING
    """
)
_LOCK = text(
    """
    SELECT row.budget_id, row.period_key, row.held_nanousd, row.spent_nanousd
    FROM budget_period row
    JOIN unnest(CAST(:budget_ids AS text[]), CAST(:period_keys AS text[])) AS wanted (budget_id, period_key)
        USING (budget_id, period_key)
    ORDER BY row.budget_id COLLATE "C", row.period_key COLLATE "C"
    FOR UPDATE OF row
    """
)
# The rows come sorted, so they are locked in key order; one that does not exist yet is made.
_SPEND = text(
    """
    INSERT INTO budget_period (budget_id, period_key, spent_nanousd)
    SELECT * FROM unnest(CAST(:budget_ids AS text[]), CAST(:period_keys AS text[]), CAST(:spent AS bigint[]))
    ON CONFLICT (budget_id, period_key)
    DO UPDATE SET spent_nanousd = budget_period.spent_nanousd + EXCLUDED.spent_nanousd
    """
)
_NOTE_REFUSALS = text(
    """
    INSERT INTO budget_refusal (budget_id, period_key, limit_nanousd)
    SELECT * FROM unnest(CAST(:budget_ids AS text[]), CAST(:period_keys AS text[]), CAST(:limits AS bigint[]))
    ON CONFLICT DO NOTHING
    """
)


@dataclass(frozen=True, slots=True)
class BudgetLimit:
    budget_id: str
    scope: str
    tenant_id: str | None
    key_id: str | None
    period: Period
    zone: str
    limit_nanousd: int
    is_hard: bool

    def covers(self, tenant_id: str, key_id: str) -> bool:
        return self.tenant_id in (None, tenant_id) and self.key_id in (None, key_id)

    def key_at(self, at: datetime) -> BudgetKey:
        return BudgetKey(self.budget_id, period_key(self.period, zone_of(self.zone), at))

    def row(self, key: BudgetKey, counts: tuple[int, int]) -> BudgetRow:
        held, spent = counts
        return BudgetRow(key, self.scope, self.limit_nanousd, self.is_hard, held, spent)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits as one revision of the configuration has them."""

    revision: int
    all: tuple[BudgetLimit, ...]

    def on(self, tenant_id: str, key_id: str) -> tuple[BudgetLimit, ...]:
        return tuple(limit for limit in self.all if limit.covers(tenant_id, key_id))


async def limits_of(
    connection: WriteConnection, tenant_ids: Collection[str], key_ids: Collection[str]
) -> Limits:
    """The limits on any of these scopes, the organisation's included."""
    found = await connection.execute(_LIMITS, {"tenant_ids": list(tenant_ids), "key_ids": list(key_ids)})
    rows = found.all()
    return Limits(rows[0][0], tuple(BudgetLimit(*row[1:]) for row in rows if row[1] is not None))


async def create_rows(connection: WriteConnection, keys: Collection[BudgetKey]) -> None:
    """Rows of a new period. Before any lock: it takes its keys in the same order as the locks are taken."""
    await connection.execute(_CREATE, _columns(sorted(keys)))


async def lock_rows(
    connection: WriteConnection, keys: Collection[BudgetKey]
) -> dict[BudgetKey, tuple[int, int]]:
    """(held, spent) of each existing row, which stays locked until the transaction ends."""
    rows = await connection.execute(_LOCK, _columns(sorted(keys)))
    return {BudgetKey(row[0], row[1]): (row[2], row[3]) for row in rows}


async def spend(connection: WriteConnection, spent: Mapping[BudgetKey, int]) -> None:
    """Charge rows (or, below zero, give back) without a hold. The last statement of a transaction: everybody waits
    for these rows."""
    keys = sorted(spent)
    if keys:
        await connection.execute(_SPEND, {**_columns(keys), "spent": [spent[key] for key in keys]})


async def note_refusals(connection: WriteConnection, refused: Sequence[Refused]) -> None:
    """In the order given; another gateway may have noted the same."""
    columns = {
        "budget_ids": [one.budget_id for one in refused],
        "period_keys": [one.period_key for one in refused],
        "limits": [one.limit_nanousd for one in refused],
    }
    await connection.execute(_NOTE_REFUSALS, columns)


async def hard_scopes(connection: WriteConnection) -> list[tuple[str | None, str | None]]:
    """(tenant, key) of every hard budget; (None, None) is the organisation's."""
    rows = await connection.execute(text("SELECT tenant_id, key_id FROM budget WHERE is_hard"))
    return [(row[0], row[1]) for row in rows]


def _columns(keys: Sequence[BudgetKey]) -> dict[str, list[Any]]:
    return {"budget_ids": [key.budget_id for key in keys], "period_keys": [key.period_key for key in keys]}
