"""Objectives, and how they are kept."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from gateway.slo.types import RequestClass, Sli

__all__ = ["Objective", "SloBucket", "SloLine"]

Objective = TypedDict(
    "Objective",
    {
        "object": Literal["organization.objective"],
        "id": str,
        "project_id": str | None,
        "model": str | None,
        "class": RequestClass,
        "sli": Sli,
        "threshold_ms": float | None,
        "target": float,
        "window_days": int,
        "is_counted": bool,
        "created_at": int,
    },
)

SloSeries = TypedDict(
    "SloSeries",
    {
        "objective_id": str,
        "class": RequestClass,
        "sli": Sli,
        "threshold_ms": float | None,
        "target": float,
        "good": int,
        "total": int,
        "budget_left": float | None,
        "burn": dict[str, float | None],
    },
)


class SloLine(TypedDict):
    """One project × model. Worst series first counts: `budget_left` is the least of them, `burn_1h` the largest."""

    object: Literal["organization.slo.line"]
    id: str
    scope: Literal["project", "all_projects"]
    project_id: str | None
    model: str | None
    budget_left: float | None
    burn_1h: float | None
    ttft_p95_ms: float | None
    tpot_p95_ms: float | None
    tokens_per_s: float
    evaluated_at: int | None
    series: list[SloSeries]


class Percentiles(TypedDict):
    count: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


class SloCount(TypedDict):
    sli: Sli
    threshold_ms: float | None
    good: int
    total: int


class SloBucket(TypedDict):
    object: Literal["organization.slo.bucket"]
    start_time: int
    end_time: int
    ttft: Percentiles
    tpot: Percentiles
    e2e: Percentiles
    counts: list[SloCount]
