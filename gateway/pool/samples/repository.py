"""Samples of replicas: whom to ask, the rows, and charts of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec
from sqlalchemy import text

from gateway.db import ReadSession, WriteConnection

__all__ = ["SamplePoint", "SampleRow", "Sampled", "charted", "sampled_replicas", "write_samples"]

_REPLICAS = text(
    """
    SELECT r.id, r.pool_id, r.url, coalesce(p.spec ->> 'kind', 'tollway') AS kind
    FROM replica r JOIN pool p ON p.id = r.pool_id
    WHERE r.url IS NOT NULL AND r.state IN ('ready', 'draining') ORDER BY r.id
    """
)
_WRITE = text(
    """
    INSERT INTO replica_sample (at, replica_id, pool_id, running, waiting, kv_usage, preemptions, tokens)
    SELECT at, replica_id, pool_id, running, waiting, kv_usage, preemptions, tokens
    FROM json_populate_recordset(CAST(NULL AS replica_sample), CAST(:rows AS json))
    ON CONFLICT (at, replica_id) DO NOTHING
    """
)
# A counter that is smaller than in the sample before has begun anew: nothing is known of what lies between.
_CHART = text(
    """
    WITH stepped AS (
        SELECT replica_id, running, waiting, kv_usage,
            to_timestamp(floor(extract(epoch FROM at) / CAST(:step AS int)) * CAST(:step AS int)) AS bucket,
            CASE WHEN tokens >= lag(tokens) OVER w THEN tokens - lag(tokens) OVER w END AS more_tokens,
            CASE WHEN preemptions >= lag(preemptions) OVER w THEN preemptions - lag(preemptions) OVER w END AS more_preemptions,
            CASE WHEN tokens >= lag(tokens) OVER w THEN extract(epoch FROM at - lag(at) OVER w) END AS seconds
        FROM replica_sample WHERE pool_id = :pool_id AND at >= :since AND at < :until
        WINDOW w AS (PARTITION BY replica_id ORDER BY at)
    )
    SELECT bucket, replica_id, CAST(avg(running) AS double precision) AS running,
        CAST(avg(waiting) AS double precision) AS waiting, max(waiting) AS waiting_max, max(kv_usage) AS kv_usage_max,
        CAST(sum(more_tokens) / nullif(sum(seconds), 0) AS double precision) AS tokens_per_s,
        CAST(sum(more_preemptions) AS bigint) AS preemptions
    FROM stepped GROUP BY bucket, replica_id ORDER BY bucket, replica_id LIMIT :limit
    """
)


@dataclass(frozen=True, slots=True)
class Sampled:
    """A replica that can be asked."""

    id: str
    pool_id: str
    url: str
    kind: str


@dataclass(frozen=True, slots=True)
class SampleRow:
    at: datetime
    replica_id: str
    pool_id: str
    running: int
    waiting: int
    kv_usage: float
    preemptions: int | None
    tokens: int | None


@dataclass(frozen=True, slots=True)
class SamplePoint:
    """One replica in one step of a chart. Averages, but for the largest queue and the fullest memory."""

    bucket: datetime
    replica_id: str
    running: float
    waiting: float
    waiting_max: int
    kv_usage_max: float
    tokens_per_s: float | None
    preemptions: int | None


async def sampled_replicas(connection: WriteConnection) -> list[Sampled]:
    return [Sampled(**row) for row in (await connection.execute(_REPLICAS)).mappings()]


async def write_samples(connection: WriteConnection, rows: Sequence[SampleRow]) -> None:
    """A moment that another worker has written stays as it is."""
    await connection.execute(_WRITE, {"rows": msgspec.json.encode(rows).decode()})


async def charted(
    session: ReadSession, pool_id: str, since: datetime, until: datetime, step_s: int, limit: int
) -> list[SamplePoint]:
    """At most `limit`, by bucket and replica."""
    values = {"pool_id": pool_id, "since": since, "until": until, "step": step_s, "limit": limit}
    return [SamplePoint(**row) for row in (await session.execute(_CHART, values)).mappings()]
