"""Sums of slices + objectives → how every series stands. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gateway.slo.burn import state_of, windows
from gateway.slo.matching import holding
from gateway.slo.types import Objective, Series, State, Sums

__all__ = ["Counted", "evaluate"]

Counted = Mapping[tuple[Series, int], Mapping[int, Sums]]
"""By series and threshold: sums by the start of their slice."""


def evaluate(objectives: Sequence[Objective], counted: Counted, now: int) -> list[State]:
    """In key order: each series by the objective that holds for it. All tenants together are a series too: many small
    ones of which each has too few requests to tell may still be one large failure."""
    found = []
    for (series, threshold_us), by_slice in sorted(counted.items()):
        objective = holding(objectives, series)
        if objective is not None and objective.threshold_us == threshold_us:
            found.append(state_of(series, objective, windows(now, by_slice)))
    return found
