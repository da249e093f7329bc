"""How the board's lines went in the last hour, in steps of five minutes: what a glance needs, from the rows by minute.

A step's percentile is that of the sum of its minutes, its burn that of its own requests by the objectives that hold now.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import text

from gateway.db import ReadSession
from gateway.slo.histogram import Histogram, add, from_json, percentile
from gateway.slo.types import ALL_TENANTS, MILLION

__all__ = ["P95", "PAIRS", "STEPS", "STEP_S", "Key", "Promise", "Trend", "read_trends"]

STEP_S = 300
STEPS = 12
P95 = 0.95
Key = tuple[str, str]
"""Tenant and served name."""
Promise = tuple[str, str, int]
"""Class, indicator, threshold."""
_STEP = f"CAST(floor(extract(epoch FROM bucket - CAST(:since AS timestamptz)) / {STEP_S}) AS integer)"
PAIRS = "unnest(CAST(:tenant_ids AS text[]), CAST(:models AS text[])) AS pair (tenant_id, served_model)"
"""The lines that are asked for, as rows to join with."""
_RANGE = "bucket >= :since AND bucket < :until"
_LATENCIES = text(
    f"""
    SELECT tenant_id, served_model, {_STEP} AS step, ttft, tpot
    FROM {PAIRS} JOIN latency_minute USING (tenant_id, served_model)
    WHERE {_RANGE} AND request_class = 'interactive'
    """
)
_COUNTS = text(
    f"""
    SELECT tenant_id, served_model, request_class, sli, threshold_us, {_STEP} AS step,
        CAST(sum(good) AS bigint) AS good, CAST(sum(total) AS bigint) AS total
    FROM {PAIRS} JOIN slo_minute USING (tenant_id, served_model)
    WHERE {_RANGE} GROUP BY 1, 2, 3, 4, 5, 6
    """
)
_SPEEDS = text(
    f"""
    SELECT tenant_id, served_model, {_STEP} AS step, CAST(sum(completion_tokens) AS bigint) AS tokens
    FROM rollup_minute
    WHERE {_RANGE} AND (CAST(:tenants AS text[]) IS NULL OR tenant_id = ANY(CAST(:tenants AS text[])))
    GROUP BY 1, 2, 3
    """
)


@dataclass(slots=True)
class Trend:
    """Oldest first, `STEPS` of each. None where nothing was measured."""

    start: datetime
    ttft: list[Histogram] = field(default_factory=lambda: [{} for _ in range(STEPS)])
    tpot: list[Histogram] = field(default_factory=lambda: [{} for _ in range(STEPS)])
    tokens_per_s: list[float] = field(default_factory=lambda: [0.0] * STEPS)
    burn: list[float | None] = field(default_factory=lambda: [None] * STEPS)

    @property
    def ttft_p95_us(self) -> list[float | None]:
        return [percentile(one, P95) for one in self.ttft]

    @property
    def tpot_p95_us(self) -> list[float | None]:
        return [percentile(one, P95) for one in self.tpot]


async def read_trends(
    session: ReadSession, now: datetime, promises: Mapping[Key, Mapping[Promise, int]]
) -> dict[Key, Trend]:
    """Of the lines that `promises` names, with the target that each is measured by, in millionths."""
    until = now.replace(second=0, microsecond=0)
    since = until - timedelta(seconds=STEPS * STEP_S)
    trends = {key: Trend(since) for key in promises}
    tenants = {tenant_id for tenant_id, _ in promises}
    span = {"since": since, "until": until}
    pairs = {**span, "tenant_ids": [key[0] for key in promises], "models": [key[1] for key in promises]}
    for row in await session.execute(_LATENCIES, pairs):
        trend = trends[row.tenant_id, row.served_model]
        add(trend.ttft[row.step], from_json(row.ttft))
        add(trend.tpot[row.step], from_json(row.tpot))
    for row in await session.execute(_COUNTS, pairs):
        key = row.tenant_id, row.served_model
        target_ppm = promises[key].get((row.request_class, row.sli, row.threshold_us))
        if target_ppm is not None and row.total:
            burns = trends[key].burn
            burn = (1 - row.good / row.total) / (1 - target_ppm / MILLION)
            burns[row.step] = max(burn, burns[row.step] or 0.0)
    await _speeds(session, span, trends, tenants)
    return trends


async def _speeds(
    session: ReadSession, span: Mapping[str, Any], trends: Mapping[Key, Trend], tenants: Collection[str]
) -> None:
    """Usage is counted by tenant alone: what all of them together did is their sum."""
    wanted = None if ALL_TENANTS in tenants else list(tenants)
    for row in await session.execute(_SPEEDS, {**span, "tenants": wanted}):
        for tenant_id in (row.tenant_id, ALL_TENANTS):
            trend = trends.get((tenant_id, row.served_model))
            if trend is not None:
                trend.tokens_per_s[row.step] += row.tokens / STEP_S
