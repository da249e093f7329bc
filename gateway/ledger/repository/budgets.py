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
from gateway.ledger.decide import BudgetRow, Sums
from gateway.ledger.periods import Period, period_key, zone_of
from gateway.ledger.types import BudgetKey

__all__ = [
    "BudgetLimit",
    "apply_sums",
    "budgets_revision",
    "create_rows",
    "hard_scopes",
    "limits_of",
    "lock_rows",
]

_LIMITS = text(
    """
    SELECT id, scope, tenant_id, key_id, period, zone, limit_nanousd, is_hard FROM budget
    WHERE scope = 'organization'
        OR (scope = 'tenant' AND tenant_id = ANY(CAST(:tenant_ids AS text[])))
        OR (scope = 'key' AND tenant_id = ANY(CAST(:tenant_ids AS text[]))
            AND key_id = ANY(CAST(:key_ids AS text[])))
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
# The common table expression takes the locks, in key order, before any row of it is updated.
_APPLY = text(
    """
    WITH change AS (
        SELECT row.budget_id, row.period_key, wanted.held, wanted.spent
        FROM budget_period row
        JOIN unnest(CAST(:budget_ids AS text[]), CAST(:period_keys AS text[]), CAST(:held AS bigint[]),
            CAST(:spent AS bigint[])) AS wanted (budget_id, period_key, held, spent) USING (budget_id, period_key)
        ORDER BY row.budget_id COLLATE "C", row.period_key COLLATE "C"
        FOR UPDATE OF row
    )
    UPDATE budget_period row
    SET held_nanousd = row.held_nanousd - change.held, spent_nanousd = row.spent_nanousd + change.spent
    FROM change
    WHERE row.budget_id = change.budget_id AND row.period_key = change.period_key
    RETURNING row.budget_id, row.period_key
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


async def limits_of(
    connection: WriteConnection, tenant_ids: Collection[str], key_ids: Collection[str]
) -> list[BudgetLimit]:
    """The limits on any of these scopes, the organisation's included."""
    rows = await connection.execute(_LIMITS, {"tenant_ids": list(tenant_ids), "key_ids": list(key_ids)})
    return [BudgetLimit(*row) for row in rows]


async def create_rows(connection: WriteConnection, keys: Collection[BudgetKey]) -> None:
    """Rows of a new period. Before any lock: it takes its keys in the same order as the locks are taken."""
    await connection.execute(_CREATE, _columns(sorted(keys)))


async def lock_rows(
    connection: WriteConnection, keys: Collection[BudgetKey]
) -> dict[BudgetKey, tuple[int, int]]:
    """(held, spent) of each existing row, which stays locked until the transaction ends."""
    rows = await connection.execute(_LOCK, _columns(sorted(keys)))
    return {BudgetKey(row[0], row[1]): (row[2], row[3]) for row in rows}


async def apply_sums(connection: WriteConnection, sums: Mapping[BudgetKey, Sums]) -> set[BudgetKey]:
    """Give back what was held and add what was spent: lock in key order and update, in one statement. Returns the
    keys that have no row."""
    keys = sorted(sums)
    columns: dict[str, list[Any]] = {
        **_columns(keys),
        "held": [sums[key].held_nanousd for key in keys],
        "spent": [sums[key].spent_nanousd for key in keys],
    }
    rows = await connection.execute(_APPLY, columns)
    return set(keys) - {BudgetKey(row[0], row[1]) for row in rows}


async def budgets_revision(connection: WriteConnection) -> int:
    result = await connection.execute(text("SELECT revision FROM config_revision WHERE topic = 'budget'"))
    return int(result.scalar_one())


async def hard_scopes(connection: WriteConnection) -> list[tuple[str | None, str | None]]:
    """(tenant, key) of every hard budget; (None, None) is the organisation's."""
    rows = await connection.execute(text("SELECT tenant_id, key_id FROM budget WHERE is_hard"))
    return [(row[0], row[1]) for row in rows]


def _columns(keys: Sequence[BudgetKey]) -> dict[str, list[str]]:
    return {"budget_ids": [key.budget_id for key in keys], "period_keys": [key.period_key for key in keys]}
