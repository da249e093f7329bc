"""Hard budgets that have begun to refuse for what is spent: noted where they refuse, told with the next heartbeat.

A hard budget never reaches its limit exactly: what is left at last covers no request's upper bound. It counts as used
up when it refuses a request for its committed spend alone, holds left aside, while at least nine tenths of the limit
are spent: one request that is too large for a fresh budget says nothing about it. Each budget, period and limit is told
once per process. It does not know who reads it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from gateway.ledger.decide import BudgetRow

__all__ = ["Refused", "UsedUp"]

REMEMBERED_MAX = 20_000


class Refused(NamedTuple):
    budget_id: str
    period_key: str
    limit_nanousd: int


class UsedUp:
    """`note` when a row refuses; `news` are what has not been told yet, until `told`."""

    def __init__(self) -> None:
        self._news: set[Refused] = set()
        self._known: set[Refused] = set()

    def note(self, row: BudgetRow, amount_nanousd: int) -> None:
        left = row.limit_nanousd - row.spent_nanousd
        if amount_nanousd <= left or left > row.limit_nanousd // 10:
            return
        refused = Refused(*row.key, row.limit_nanousd)
        if refused not in self._known and len(self._news) < REMEMBERED_MAX:
            self._news.add(refused)

    @property
    def news(self) -> list[Refused]:
        """In key order: whoever writes them takes rows in one order."""
        return sorted(self._news)

    def told(self, refused: Collection[Refused]) -> None:
        """After the commit. Telling again is harmless, so what is remembered may be forgotten."""
        self._news.difference_update(refused)
        if len(self._known) + len(refused) > REMEMBERED_MAX:
            self._known.clear()
        self._known.update(refused)
