"""Runs whose figures can be had by hand."""

from __future__ import annotations

from collections.abc import Sequence

from engine.bench.stats import Objectives, Outcome
from workbench.bench.results import Point, Result, Run, point_of

OBJECTIVES = Objectives(ttft_ms=500)


def outcomes(ttfts_ms: Sequence[float], failed: int = 0) -> list[Outcome]:
    """One request a second, three tokens each, 10 ms apart."""
    good = [
        Outcome(0, at, (at + ttft / 1e3, at + ttft / 1e3 + 0.01, at + ttft / 1e3 + 0.02), 7, 3)
        for at, ttft in enumerate(ttfts_ms)
    ]
    return [*good, *(Outcome(0, 0.0, error="500: no") for _ in range(failed))]


def run(label: str, *ttfts_ms: float) -> Run:
    """A point per TTFT, at 1, 2, 3 … requests a second."""
    points = (
        point_of(float(rate), outcomes([ttft] * 4), OBJECTIVES) for rate, ttft in enumerate(ttfts_ms, 1)
    )
    return Run(label, f"http://{label}/v1", "m", tuple(points))


def result(*runs: Run) -> Result:
    return Result({"seed": 0}, OBJECTIVES, runs, ("a note <with> marks",))


def point(ttfts_ms: Sequence[float], failed: int = 0) -> Point:
    return point_of(2.0, outcomes(ttfts_ms, failed), OBJECTIVES)
