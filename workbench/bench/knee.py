"""Where a server's latency breaks away from its rate. Pure.

The rule, which the report states too: scale the rates of the sweep and their TTFT p95 to 0…1 each; the knee is the
measured rate whose TTFT lies farthest below the diagonal from the first to the last point: behind it the queue grows
faster than the rate. There is none where fewer than four rates were measured, where the TTFT does not rise threefold
over the sweep, or where no point lies a tenth below the diagonal: then the sweep has not reached the limit.
"""

from __future__ import annotations

from collections.abc import Sequence

RULE = (
    "the measured rate whose TTFT p95 lies farthest below the straight line from the first to the last point, both axes "
    "scaled to 0…1; none with fewer than four rates, without a threefold rise, or nearer than a tenth to the line"
)
_POINTS_MIN = 4
_RISE_MIN = 3.0
_DISTANCE_MIN = 0.1


def find_knee(points: Sequence[tuple[float, float]]) -> float | None:
    """`points`: (rate, TTFT p95). Returns a rate among them, or None."""
    points = sorted(points)
    if len(points) < _POINTS_MIN:
        return None
    (low_rate, low), (high_rate, high) = points[0], points[-1]
    if high < _RISE_MIN * low or high_rate == low_rate or high <= low:
        return None
    below = {
        rate: (rate - low_rate) / (high_rate - low_rate) - (ttft - low) / (high - low)
        for rate, ttft in points
    }
    knee = max(below, key=below.__getitem__)
    return knee if below[knee] >= _DISTANCE_MIN else None
