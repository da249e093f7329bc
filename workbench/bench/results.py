"""What a sweep found, as records and as the JSON that `tollway plan --benchmark` reads. Pure; draws nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engine.bench.stats import Objectives, Outcome, Report, summarise
from workbench.bench.knee import RULE, find_knee
from workbench.capacity.measured import FORMAT

_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Point:
    """One server at one rate."""

    rate: float
    """Requests a second that were offered."""
    report: Report
    attained: float
    """Share of all requests that kept every objective; one that failed did not."""
    requests: tuple[Mapping[str, float | None], ...]
    """ttft_ms, tpot_ms and e2el_ms of each that was answered."""

    @property
    def ttft_p95_ms(self) -> float | None:
        return self.report.latencies_ms["ttft"].get("p95")


@dataclass(frozen=True, slots=True)
class Run:
    """One server over the sweep."""

    label: str
    url: str
    model: str
    points: tuple[Point, ...]

    @property
    def knee(self) -> float | None:
        measured = [(point.rate, point.ttft_p95_ms) for point in self.points]
        return find_knee([(rate, ttft) for rate, ttft in measured if ttft is not None])


@dataclass(frozen=True, slots=True)
class Result:
    settings: Mapping[str, Any]
    objectives: Objectives
    runs: tuple[Run, ...]
    notes: tuple[str, ...] = ()


def point_of(rate: float, outcomes: Sequence[Outcome], objectives: Objectives) -> Point:
    good = [outcome for outcome in outcomes if outcome.error is None]
    kept = sum(objectives.kept_by(outcome) for outcome in good)
    requests = tuple(
        {"ttft_ms": _short(o.ttft_ms), "tpot_ms": _short(o.tpot_ms), "e2el_ms": _short(o.e2el_ms)}
        for o in good
    )
    return Point(rate, summarise(outcomes, objectives), kept / len(outcomes) if outcomes else 0.0, requests)


def ratios(first: Run, second: Run) -> list[dict[str, float | None]]:
    """Per rate, the second server's figures over the first's: below 1 is faster, above 1 more throughput."""
    return [
        {
            "rate": one.rate,
            "ttft_p50": _ratio(one, other, "ttft", "p50"),
            "ttft_p95": _ratio(one, other, "ttft", "p95"),
            "tpot_p50": _ratio(one, other, "tpot", "p50"),
            "e2el_p50": _ratio(one, other, "e2el", "p50"),
            "output_tokens_per_s": _over(other.report.output_tokens_per_s, one.report.output_tokens_per_s),
        }
        for one, other in zip(first.points, second.points, strict=True)
    ]


def as_json(result: Result) -> dict[str, Any]:
    runs = result.runs
    return {
        "format": FORMAT,
        "settings": dict(result.settings),
        "objectives": asdict(result.objectives),
        "knee_rule": RULE,
        "runs": [_run_json(run) for run in runs],
        "ratios": ratios(runs[0], runs[1]) if len(runs) == 2 else [],
        "notes": list(result.notes),
    }


def _run_json(run: Run) -> dict[str, Any]:
    return {
        "label": run.label,
        "url": run.url,
        "model": run.model,
        "knee": run.knee,
        "points": [
            {"rate": point.rate, "attained": point.attained}
            | point.report.as_dict()
            | {"requests": list(point.requests)}
            for point in run.points
        ],
    }


def _ratio(one: Point, other: Point, figure: str, share: str) -> float | None:
    first = one.report.latencies_ms[figure].get(share)
    second = other.report.latencies_ms[figure].get(share)
    return None if first is None or second is None else _over(second, first)


def _over(second: float, first: float) -> float | None:
    return second / first if first else None


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)
