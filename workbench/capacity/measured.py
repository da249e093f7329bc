"""What a benchmark says a replica can take: the highest rate of a sweep at which an objective was kept.

Reads the JSON of `tollway bench`. Judges each request anew by the objective of the plan, so one sweep serves many
objectives. Pure but for `load`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.capacity.errors import PlanError

FORMAT = "tollway-bench/1"


@dataclass(frozen=True, slots=True)
class Slo:
    """What a share of the requests must keep; None: anything."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    share: float = 0.95

    @property
    def is_given(self) -> bool:
        return self.ttft_ms is not None or self.tpot_ms is not None

    def attained(self, requests: Sequence[Mapping[str, float | None]], failed: int) -> float:
        """Share of all requests that kept it; one that failed did not."""
        total = len(requests) + failed
        kept = sum(
            _within(request.get("ttft_ms"), self.ttft_ms) and _within(request.get("tpot_ms"), self.tpot_ms)
            for request in requests
        )
        return kept / total if total else 0.0


@dataclass(frozen=True, slots=True)
class Measured:
    """A replica's rate, and whether the sweep reached its limit."""

    qps: float
    attained: float
    is_limit: bool
    """False: every rate that was tried kept the objective, so the replica can take more."""


def load(path: Path, label: str | None = None) -> Mapping[str, Any]:
    """One run of the file; `label` says which where there are several."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PlanError(f"{path} cannot be read as a benchmark: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise PlanError(f"{path} is no result of `tollway bench --json` (format {FORMAT})")
    runs = {run["label"]: run for run in document["runs"]}
    if label is None and len(runs) > 1:
        raise PlanError(f"{path} holds the runs {', '.join(runs)}: choose one with --benchmark-label")
    if label is not None and label not in runs:
        raise PlanError(f"{path} holds no run {label!r}, but {', '.join(runs)}")
    run: Mapping[str, Any] = runs[label] if label is not None else next(iter(runs.values()))
    return run


def rate_within(run: Mapping[str, Any], slo: Slo, replicas: int = 1) -> Measured:
    """The highest rate up to which every rate kept the objective, per replica of the `replicas` that were measured."""
    points = sorted(run["points"], key=lambda point: float(point["rate"]))
    best: Measured | None = None
    for point in points:
        attained = slo.attained(point["requests"], point["failed"])
        if attained < slo.share:
            break
        best = Measured(point["rate"] / replicas, attained, is_limit=point is not points[-1])
    if best is None:
        first = points[0]
        share = slo.attained(first["requests"], first["failed"])
        raise PlanError(
            f"the objective was kept by {share:.0%} of the requests at {first['rate']:g}/s, the lowest rate measured, "
            f"not by {slo.share:.0%}: measure lower rates, or loosen --slo-ttft-ms / --slo-tpot-ms"
        )
    return best


def _within(value: float | None, limit: float | None) -> bool:
    return limit is None or value is None or value <= limit
