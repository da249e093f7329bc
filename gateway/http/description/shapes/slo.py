"""Objectives, how they are kept, and what is wrong."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from gateway.http.description.shapes.common import Json
from gateway.slo.types import RequestClass, Sli

__all__ = ["AlertEpisode", "AlertSilence", "Objective", "PoolSample", "SloBucket", "SloLine"]

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


class SloTrend(TypedDict):
    """The last hour, oldest first; null where nothing was measured."""

    start_time: int
    step_s: int
    ttft_p95_ms: list[float | None]
    tpot_p95_ms: list[float | None]
    tokens_per_s: list[float]
    burn: list[float | None]


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
    trend: SloTrend | None
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


class AlertEpisode(TypedDict):
    """`values`: figures of its beginning; `last_values`: the latest. Which ones depends on the source."""

    object: Literal["organization.alert_episode"]
    id: str
    source: str
    scope: str
    severity: Literal["page", "ticket", "info"]
    state: Literal["open", "resolved"]
    project_id: str | None
    values: Json
    last_values: Json
    fired_at: int
    quiet_since: int | None
    resolved_at: int | None
    announced_at: int | None
    silence_id: str | None


class AlertSilence(TypedDict):
    object: Literal["organization.alert_silence"]
    id: str
    source: str | None
    scope: str | None
    project_id: str | None
    reason: str
    created_by: str
    starts_at: int
    ends_at: int
    created_at: int


class ReplicaPoint(TypedDict):
    replica_id: str
    running: float
    waiting: float
    waiting_max: int
    kv_usage_max: float
    tokens_per_s: float | None
    preemptions: int | None


class PoolSample(TypedDict):
    """Averages over a step, but for the longest queue and the fullest memory in it."""

    object: Literal["organization.pool.sample"]
    start_time: int
    end_time: int
    replicas: list[ReplicaPoint]
