"""The decisions of a batch against locked budget rows. Pure: this is where a limit is enforced, and only here.

Operations are decided in their order of arrival. One that does not fit is refused by itself; a smaller one after
it may still fit. It knows neither SQL nor tenants.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gateway.ledger.types import BudgetKey, Take

__all__ = ["Ask", "BudgetRow", "Decision", "Release", "Sums", "decide", "sum_releases"]


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


@dataclass(frozen=True, slots=True)
class Release:
    """One settlement: what its hold gives back, and what it charges, on the same rows."""

    takes: tuple[Take, ...]
    is_hold_open: bool
    spent_nanousd: int


@dataclass(slots=True)
class Sums:
    """What one UPDATE does to one budget row."""

    held_nanousd: int = 0
    spent_nanousd: int = 0


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


def sum_releases(releases: Iterable[Release]) -> dict[BudgetKey, Sums]:
    """One change per row. A hold that is gone gives nothing back, and is charged all the same."""
    sums: dict[BudgetKey, Sums] = defaultdict(Sums)
    for release in releases:
        for take in release.takes:
            row = sums[take.key]
            row.spent_nanousd += release.spent_nanousd
            if release.is_hold_open:
                row.held_nanousd += take.amount_nanousd
    return dict(sums)


def _fits(row: BudgetRow, pending: Mapping[BudgetKey, int], ask: Ask) -> bool:
    assert ask.amount_nanousd >= 0
    if not row.is_hard:
        return True
    taken = row.spent_nanousd + row.held_nanousd + pending.get(row.key, 0)
    return taken + ask.amount_nanousd <= row.limit_nanousd
