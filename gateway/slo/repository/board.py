"""The board: how every tenant × model stands, worst first, a page of it at a time.

States are read as the worker wrote them; latencies and speeds of a page's own rows come from the sums of the last hours
and minutes. What a page costs does not depend on how many requests there were.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import text

from gateway.db import ReadSession
from gateway.slo.histogram import Histogram, add, from_json, percentile
from gateway.slo.repository.trend import P95, PAIRS, Trend, read_trends

__all__ = ["BoardLine", "BoardReader", "SeriesState"]

_LINES = text(
    """
    SELECT tenant_id, served_model, min(budget_left) AS budget_left, max(CAST(burn ->> '1h' AS double precision)) AS burn
    FROM objective_state
    WHERE (CAST(:tenants AS text[]) IS NULL OR tenant_id = ANY(CAST(:tenants AS text[])))
        AND (CAST(:models AS text[]) IS NULL OR served_model = ANY(CAST(:models AS text[])))
    GROUP BY tenant_id, served_model
    ORDER BY 3 NULLS LAST, 4 DESC NULLS LAST, tenant_id, served_model OFFSET :offset LIMIT :limit
    """
)
_STATES = text(
    f"""
    SELECT s.* FROM {PAIRS} JOIN objective_state s USING (tenant_id, served_model)
    ORDER BY request_class DESC, sli
    """
)
_LATENCIES = text(
    f"""
    SELECT tenant_id, served_model, ttft, tpot FROM {PAIRS} JOIN latency_hour USING (tenant_id, served_model)
    WHERE bucket >= :since AND request_class = 'interactive'
    """
)


@dataclass(frozen=True, slots=True)
class SeriesState:
    """As it was evaluated."""

    request_class: str
    sli: str
    objective_id: str
    threshold_us: int
    target_ppm: int
    good: int
    total: int
    budget_left: float | None
    burn: dict[str, float | None]
    evaluated_at: datetime


@dataclass(slots=True)
class BoardLine:
    """`budget_left` is that of its worst series, `burn` over an hour that of its fastest. Latencies of interactive
    requests, since the beginning of the hour before this one."""

    tenant_id: str
    served_model: str
    budget_left: float | None
    burn: float | None
    states: list[SeriesState] = field(default_factory=list)
    ttft: Histogram = field(default_factory=dict)
    tpot: Histogram = field(default_factory=dict)
    trend: Trend | None = None

    @property
    def tokens_per_s(self) -> float:
        """In the last whole minutes."""
        return self.trend.tokens_per_s[-1] if self.trend is not None else 0.0

    @property
    def ttft_p95_us(self) -> float | None:
        return percentile(self.ttft, P95)

    @property
    def tpot_p95_us(self) -> float | None:
        return percentile(self.tpot, P95)


class BoardReader:
    async def page(
        self,
        session: ReadSession,
        now: datetime,
        tenants: Collection[str] | None,
        models: Collection[str] | None,
        offset: int,
        limit: int,
    ) -> list[BoardLine]:
        """`tenants` None: everybody's, and that of all together."""
        asked = {
            "tenants": list(tenants) if tenants is not None else None,
            "models": list(models) if models is not None else None,
        }
        rows = await session.execute(_LINES, {**asked, "offset": offset, "limit": limit})
        lines = {(row.tenant_id, row.served_model): BoardLine(*row) for row in rows}
        if lines:
            await self._fill(session, lines, now)
        return list(lines.values())

    async def _fill(
        self, session: ReadSession, lines: dict[tuple[str, str], BoardLine], now: datetime
    ) -> None:
        pairs = {"tenant_ids": [key[0] for key in lines], "models": [key[1] for key in lines]}
        for row in await session.execute(_STATES, pairs):
            lines[row.tenant_id, row.served_model].states.append(_state(row))
        hour = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
        for row in await session.execute(_LATENCIES, {**pairs, "since": hour}):
            line = lines[row.tenant_id, row.served_model]
            add(line.ttft, from_json(row.ttft))
            add(line.tpot, from_json(row.tpot))
        promises = {
            key: {(one.request_class, one.sli, one.threshold_us): one.target_ppm for one in line.states}
            for key, line in lines.items()
        }
        for key, trend in (await read_trends(session, now, promises)).items():
            lines[key].trend = trend


def _state(row: Any) -> SeriesState:
    return SeriesState(
        row.request_class,
        row.sli,
        row.objective_id,
        row.threshold_us,
        row.target_ppm,
        row.good,
        row.total,
        row.budget_left,
        row.burn,
        row.evaluated_at,
    )
