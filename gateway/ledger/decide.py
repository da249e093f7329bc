"""The decisions of a batch against budget rows as they were under their lock. Pure.

Every refusal is decided here. A batch that fits as a whole is let through by one statement, which compares the same
sums under the same lock (`repository/holds.py`).

Operations are decided in their order of arrival. One that does not fit is refused by itself; a smaller one after
it may still fit. It knows neither SQL nor tenants.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.ledger.types import BudgetKey

__all__ = ["Ask", "BudgetRow", "Decision", "decide", "sum_of"]


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """A budget row as it was when it was locked."""

    key: BudgetKey
    scope: str
    limit_nanousd: int
    is_hard: bool
    held_nanousd: int
    spent_nanousd: int


@dataclass(frozen=True, slots=True)
class Ask:
    """One reservation: the same amount from each of its rows."""

    amount_nanousd: int
    keys: tuple[BudgetKey, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """Per ask, the row that refused it (None: accepted); per row, by how much `held` grows."""

    refused_by: tuple[BudgetRow | None, ...]
    held_nanousd: Mapping[BudgetKey, int]


def decide(rows: Mapping[BudgetKey, BudgetRow], asks: Sequence[Ask]) -> Decision:
    """All or nothing per ask: it is accepted if every hard row still has room for it."""
    pending: dict[BudgetKey, int] = defaultdict(int)
    verdicts: list[BudgetRow | None] = []
    for ask in asks:
        refusal = next((rows[key] for key in ask.keys if not _fits(rows[key], pending, ask)), None)
        verdicts.append(refusal)
        if refusal is None:
            for key in ask.keys:
                pending[key] += ask.amount_nanousd
    return Decision(tuple(verdicts), dict(pending))


def sum_of(asks: Sequence[Ask]) -> dict[BudgetKey, int]:
    """What all of them together take from each row."""
    sums: dict[BudgetKey, int] = defaultdict(int)
    for ask in asks:
        for key in ask.keys:
            sums[key] += ask.amount_nanousd
    return dict(sums)


def _fits(row: BudgetRow, pending: Mapping[BudgetKey, int], ask: Ask) -> bool:
    assert ask.amount_nanousd >= 0
    if not row.is_hard:
        return True
    taken = row.spent_nanousd + row.held_nanousd + pending.get(row.key, 0)
    return taken + ask.amount_nanousd <= row.limit_nanousd
