"""Which budgets limit whom, as one revision of the configuration had it.

Kept so that a batch need not look them up. The statement that uses them compares the revision, so a changed limit
counts from the first reservation that begins after the change. It does not know what was spent.
"""

from collections.abc import Collection
from datetime import datetime

from gateway.ids import KeyId, TenantId
from gateway.ledger.repository.budgets import BudgetLimit, Limits
from gateway.ledger.types import BudgetKey, Reservation

__all__ = ["KnownLimits"]

PAIRS_MAX = 20_000


class KnownLimits:
    """By (tenant, key). Owned by one batcher; forgets everything when the revision moves or it grows too large."""

    def __init__(self) -> None:
        self.revision = -1
        self._on: dict[tuple[TenantId, KeyId], tuple[BudgetLimit, ...]] = {}

    def learn(self, limits: Limits, asked: Collection[Reservation]) -> None:
        if limits.revision != self.revision or len(self._on) + len(asked) > PAIRS_MAX:
            self._on.clear()
            self.revision = limits.revision
        for one in asked:
            self._on[one.tenant_id, one.key_id] = limits.on(one.tenant_id, one.key_id)

    def on(self, asked: Reservation) -> tuple[BudgetLimit, ...] | None:
        """What limits it; None if that was never looked up, or is forgotten."""
        return self._on.get((asked.tenant_id, asked.key_id))

    def at(self, asked: Collection[Reservation], now: datetime) -> dict[BudgetKey, BudgetLimit] | None:
        """The limits on all of them by the row that counts them now; None if one of them was never looked up."""
        found: dict[str, BudgetLimit] = {}
        for pair in {(one.tenant_id, one.key_id) for one in asked}:
            limits = self._on.get(pair)
            if limits is None:
                return None
            found.update((limit.budget_id, limit) for limit in limits)
        return {limit.key_at(now): limit for limit in found.values()}
