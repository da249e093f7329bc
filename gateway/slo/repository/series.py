"""Charts: histograms and counts of one selection, bucket by bucket, from the rows of the bucket's own width.

Histograms are added up, and percentiles taken of the sum: never of percentiles.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import text

from gateway.db import ReadSession
from gateway.ledger.buckets import Bucket, Width
from gateway.slo.counting import LATENCIES
from gateway.slo.histogram import Histogram
from gateway.slo.types import ALL_TENANTS, Sums

__all__ = ["Point", "Selection", "SeriesReader"]

_UNITS: dict[Width, str] = {"1m": "minute", "1h": "hour", "1d": "day"}
_WHERE = """
    bucket >= :start AND bucket < :until AND tenant_id = ANY(CAST(:tenants AS text[]))
        AND (CAST(:models AS text[]) IS NULL OR served_model = ANY(CAST(:models AS text[])))
        AND request_class = :request_class
"""
# One row a bucket: a row of each bound took the gateway longer to read than the server to add up.
_HISTOGRAMS = {
    (width, name): text(
        f"""
        SELECT bucket, array_agg(bound) AS bounds, array_agg(number) AS numbers FROM (
            SELECT bucket, CAST(each.bound AS bigint) AS bound,
                CAST(sum(CAST(each.number AS bigint)) AS bigint) AS number
            FROM latency_{unit} r, jsonb_each_text(r.{name}) AS each (bound, number)
            WHERE {_WHERE} AND (CAST(:pools AS text[]) IS NULL OR pool_id = ANY(CAST(:pools AS text[])))
            GROUP BY bucket, each.bound
        ) AS counted GROUP BY bucket
        """
    )
    for width, unit in _UNITS.items()
    for name in LATENCIES
}
_COUNTS = {
    width: text(
        f"""
        SELECT bucket, sli, threshold_us, CAST(sum(good) AS bigint) AS good, CAST(sum(total) AS bigint) AS total
        FROM slo_{unit} WHERE {_WHERE} GROUP BY bucket, sli, threshold_us
        """
    )
    for width, unit in _UNITS.items()
}


@dataclass(frozen=True, slots=True)
class Selection:
    """Every field narrows; None does not. Pools narrow the latencies alone: a refusal knows no pool."""

    request_class: str
    tenant_ids: Collection[str] | None = None
    models: Collection[str] | None = None
    pool_ids: Collection[str] | None = None


@dataclass(slots=True)
class Point:
    """One bucket. Histograms by latency; counts by indicator and threshold."""

    histograms: dict[str, Histogram] = field(default_factory=lambda: {name: {} for name in LATENCIES})
    counts: dict[tuple[str, int], Sums] = field(default_factory=dict)


class SeriesReader:
    async def points(
        self,
        session: ReadSession,
        page: Sequence[Bucket],
        width: Width,
        wanted: Selection,
        latencies: Collection[str],
    ) -> dict[int, Point]:
        """By the start of the bucket; where nothing happened there is none. `page` begins with a whole bucket.
        Histograms that are not asked for are empty: each costs its share of the time."""
        values: dict[str, Any] = {
            "start": datetime.fromtimestamp(page[0].start, UTC),
            "until": datetime.fromtimestamp(page[-1].end, UTC),
            "tenants": [ALL_TENANTS] if wanted.tenant_ids is None else list(wanted.tenant_ids),
            "models": list(wanted.models) if wanted.models is not None else None,
            "request_class": wanted.request_class,
        }
        found: dict[int, Point] = {}
        pools = list(wanted.pool_ids) if wanted.pool_ids is not None else None
        for name in latencies:
            for row in await session.execute(_HISTOGRAMS[width, name], {**values, "pools": pools}):
                point = found.setdefault(int(row.bucket.timestamp()), Point())
                point.histograms[name] = dict(zip(row.bounds, row.numbers, strict=True))
        for row in await session.execute(_COUNTS[width], values):
            point = found.setdefault(int(row.bucket.timestamp()), Point())
            point.counts[row.sli, row.threshold_us] = Sums(row.good, row.total)
        return found
