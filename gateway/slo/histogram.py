"""Latency histograms: counts by upper bound. Pure.

Bounds are the whole numbers of at most two significant digits (…, 99, 100, 110, …, 990, 1000, 1100, …), in
microseconds. So any threshold of two digits is a bound, and how many values lie at or below it is exact; between two
bounds, a tenth apart at most, a percentile is interpolated. Histograms add up; percentiles do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["Histogram", "add", "bound_of", "from_json", "is_bound", "percentile"]

Histogram = dict[int, int]
"""Upper bound in microseconds → how many values are at most that, and above the bound before."""
LARGEST_US = 1_000_000_000_000


def bound_of(value_us: int) -> int:
    """The smallest bound that is not below the value."""
    value = min(max(value_us, 0), LARGEST_US)
    step = _step(value)
    return -(-value // step) * step


def is_bound(value_us: int) -> bool:
    return 0 < value_us <= LARGEST_US and value_us % _step(value_us) == 0


def add(into: Histogram, more: Mapping[int, int]) -> None:
    for bound, count in more.items():
        into[bound] = into.get(bound, 0) + count


def from_json(stored: Mapping[str, Any]) -> Histogram:
    """As a row holds it: JSON has no other keys than text."""
    return {int(bound): int(count) for bound, count in stored.items()}


def percentile(histogram: Mapping[int, int], share: float) -> float | None:
    """The value in microseconds that `share` (0 to 1) of all values do not exceed. None of an empty histogram."""
    assert 0 <= share <= 1
    total = sum(histogram.values())
    if total <= 0:
        return None
    wanted, seen = share * total, 0
    for bound in sorted(histogram):
        count = histogram[bound]
        if count > 0 and seen + count >= wanted:
            lower = _before(bound)
            return lower + (bound - lower) * max(0.0, wanted - seen) / count
        seen += count
    return float(max(histogram))


def _before(bound: int) -> int:
    """The bound below: a power of ten begins a decade, and the one below it is in the decade before."""
    return bound - _step(bound - 1) if bound > 0 else 0


def _step(value: int) -> int:
    """How far bounds are apart in the decade of the value."""
    step: int = 10 ** max(0, len(str(value)) - 2)
    return step
