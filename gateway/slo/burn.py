"""How fast error budgets are used up, over several windows at once, and what that means. Pure.

All windows end together, with the current minute. Time is cut where they begin, so that every row is read once and
a window is the sum of the slices inside it. A burn rate of 1 uses up exactly the budget of 30 days in 30 days.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from gateway.ledger.buckets import Segment, segments
from gateway.slo.types import WINDOW_DAYS, Objective, Series, State, Sums

__all__ = [
    "RULES",
    "WINDOWS_S",
    "BurnRule",
    "Severity",
    "Slice",
    "burn_rate",
    "is_burning",
    "slices",
    "state_of",
]

Severity = Literal["page", "ticket"]
MINUTE_S, HOUR_S, DAY_S = 60, 3_600, 86_400
BUDGET_WINDOW: Final = "30d"
WINDOWS_S: Final[Mapping[str, int]] = {
    "5m": 5 * MINUTE_S,
    "30m": 30 * MINUTE_S,
    "1h": HOUR_S,
    "2h": 2 * HOUR_S,
    "6h": 6 * HOUR_S,
    "1d": DAY_S,
    "3d": 3 * DAY_S,
    BUDGET_WINDOW: WINDOW_DAYS * DAY_S,
}
"""Shortest first. Those of a day and longer begin with a whole hour, up to an hour earlier."""

REQUESTS_MIN: Final = 30
"""In the longer window: fewer say nothing about a rate."""
BAD_MIN: Final[Mapping[Severity, int]] = {"page": 10, "ticket": 3}
"""In the longer window: one mishap is no trend, and a few wake nobody, however few requests there are."""


class BurnRule(NamedTuple):
    """Both windows burn at least `factor` times as fast as allowed: the longer one says that it matters, the shorter
    one that it is still going on."""

    severity: Severity
    factor: float
    long: str
    short: str


RULES: Final = (
    BurnRule("page", 14.4, "1h", "5m"),
    BurnRule("page", 6.0, "6h", "30m"),
    BurnRule("ticket", 3.0, "1d", "2h"),
    BurnRule("ticket", 1.0, "3d", "6h"),
)


@dataclass(frozen=True, slots=True)
class Slice:
    """Inside the windows that begin at `start` or earlier; in rows of the rollups, the fewest that cover it."""

    start: int
    segments: Sequence[Segment]


def slices(now: int) -> list[Slice]:
    """Of all windows that end with the minute of `now` (unix seconds), earliest first."""
    end = now // MINUTE_S * MINUTE_S + MINUTE_S
    starts = sorted({window_start(end, name) for name in WINDOWS_S})
    return [
        Slice(start, segments(start, until)) for start, until in zip(starts, [*starts[1:], end], strict=True)
    ]


def window_start(end: int, name: str) -> int:
    start = end - WINDOWS_S[name]
    return start // HOUR_S * HOUR_S if WINDOWS_S[name] >= DAY_S else start


def windows(now: int, by_slice: Mapping[int, Sums]) -> dict[str, Sums]:
    """`by_slice`: sums by a slice's start; where nothing happened there is none."""
    end = now // MINUTE_S * MINUTE_S + MINUTE_S
    found, good, total = {}, 0, 0
    rest = sorted(by_slice)  # from the end: each window holds the shorter ones
    for name in WINDOWS_S:
        begin = window_start(end, name)
        while rest and rest[-1] >= begin:
            sums = by_slice[rest.pop()]
            good, total = good + sums.good, total + sums.total
        found[name] = Sums(good, total)
    return found


def burn_rate(sums: Sums, allowed_bad: float) -> float | None:
    """None if nothing happened."""
    return sums.bad / sums.total / allowed_bad if sums.total else None


def state_of(series: Series, objective: Objective, found: Mapping[str, Sums]) -> State:
    """`found`: sums by window name."""
    whole = found[BUDGET_WINDOW]
    used = burn_rate(whole, objective.allowed_bad)
    return State(
        series,
        objective,
        whole,
        budget_left=1 - used if used is not None else None,
        burn={name: burn_rate(sums, objective.allowed_bad) for name, sums in found.items()},
        requests={name: sums.total for name, sums in found.items()},
    )


def is_burning(state: State, severity: Severity, ease: float = 1.0) -> bool:
    """Whether a rule of the severity is met, or, with an `ease` below 1, still nearly met."""
    return any(_is_met(state, rule, ease) for rule in RULES if rule.severity == severity)


def _is_met(state: State, rule: BurnRule, ease: float) -> bool:
    long, short = state.burn[rule.long], state.burn[rule.short]
    if long is None or short is None or min(long, short) < rule.factor * ease:
        return False
    requests = state.requests[rule.long]
    return (
        requests >= REQUESTS_MIN
        and round(long * requests * state.objective.allowed_bad) >= BAD_MIN[rule.severity]
    )
