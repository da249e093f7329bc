"""Rollups: outbox rows become sums per minute, hour and day, and the sums can be checked against the events.

The outbox row is deleted in the transaction that adds it to the rollups, so it counts once. Upserts go in key order,
so that workers that share buckets cannot deadlock. There are no time watermarks: a late event finds its bucket.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from uuid import UUID

import msgspec
from sqlalchemy import text

from gateway.db import WriteConnection
from gateway.ledger import models
from gateway.obs.failpoints import failpoint

__all__ = ["Drift", "Taken", "fold_usage", "rebuild_day", "rollup_drift", "share_folding", "stop_folding"]

_DIMENSIONS = ("tenant_id", "key_id", "served_model", "pool_id", "endpoint", "request_class", "status")
_SUMS = (
    "prompt_uncached_tokens",
    "prompt_cached_tokens",
    "completion_tokens",
    "reasoning_tokens",
    "input_nanousd",
    "cached_input_nanousd",
    "output_nanousd",
    "amount_nanousd",
)
_DIMENSION_LIST = ", ".join(_DIMENSIONS)
_EVENT_SUMS = ", ".join(f"CAST(sum(e.{name}) AS bigint) AS {name}" for name in _SUMS)

_TAKE = text(
    """
    WITH due AS (
        SELECT id FROM outbox WHERE topic = 'usage' ORDER BY id LIMIT :limit FOR UPDATE SKIP LOCKED
    )
    DELETE FROM outbox o USING due WHERE o.id = due.id
    RETURNING CAST(payload ->> 'occurred_at' AS timestamptz) AS occurred_at, CAST(payload ->> 'event_id' AS uuid) AS event_id
    """
)
_SUM = text(
    f"""
    SELECT date_trunc('minute', e.occurred_at, 'UTC') AS bucket, {_DIMENSION_LIST},
        count(*) FILTER (WHERE e.corrects IS NULL AND e.kind = 'request') AS requests, {_EVENT_SUMS}, count(*) AS events
    FROM unnest(CAST(:times AS timestamptz[]), CAST(:ids AS uuid[])) AS taken (occurred_at, event_id)
        LEFT JOIN usage_event e USING (occurred_at, event_id)
    GROUP BY 1, {_DIMENSION_LIST}
    """
)


_Rollups = type[models.RollupMinute | models.RollupHour | models.RollupDay]


def _upsert(model: _Rollups, unit: str) -> str:
    table = model.__tablename__
    summed = ("requests", *_SUMS)
    key_order = ", ".join(f'{name} COLLATE "C"' for name in _DIMENSIONS)
    return f"""
    INSERT INTO {table} (bucket, {_DIMENSION_LIST}, {", ".join(summed)})
    SELECT date_trunc('{unit}', r.bucket, 'UTC') AS bucket, {_DIMENSION_LIST},
        {", ".join(f"sum(r.{name})" for name in summed)}
    FROM json_populate_recordset(CAST(NULL AS {table}), CAST(:rows AS json)) r
    GROUP BY 1, {_DIMENSION_LIST}
    ORDER BY 1, {key_order}
    ON CONFLICT (bucket, {_DIMENSION_LIST}) DO UPDATE SET
        {", ".join(f"{name} = {table}.{name} + EXCLUDED.{name}" for name in summed)}
    """


_TABLES: tuple[tuple[_Rollups, str], ...] = (
    (models.RollupMinute, "minute"),
    (models.RollupHour, "hour"),
    (models.RollupDay, "day"),
)
_UPSERTS = tuple(text(_upsert(model, unit)) for model, unit in _TABLES)
# One statement sees one snapshot: events still in the outbox are not yet due in the rollups. Each of the three tables
# must come out equal, so each is summed up to days.
_ROLLED = " UNION ALL ".join(
    f"""
        SELECT '{model.__tablename__}' AS source, date_trunc('day', bucket, 'UTC') AS bucket, {_DIMENSION_LIST},
            CAST(sum(requests) AS bigint) AS requests, CAST(sum(amount_nanousd) AS bigint) AS amount_nanousd,
            CAST(sum(prompt_uncached_tokens + prompt_cached_tokens + completion_tokens) AS bigint) AS tokens
        FROM {model.__tablename__}
        WHERE bucket >= CAST(:first AS timestamptz) AND bucket < CAST(:after_last AS timestamptz)
        GROUP BY 1, 2, {_DIMENSION_LIST}
    """
    for model, _ in _TABLES
)
_DRIFT = text(
    f"""
    WITH recomputed AS MATERIALIZED (
        SELECT date_trunc('day', e.occurred_at, 'UTC') AS bucket, {_DIMENSION_LIST},
            count(*) FILTER (WHERE e.corrects IS NULL AND e.kind = 'request') AS requests,
            sum(e.prompt_uncached_tokens + e.prompt_cached_tokens + e.completion_tokens) AS tokens,
            sum(e.amount_nanousd) AS amount_nanousd
        FROM usage_event e
        WHERE e.occurred_at >= CAST(:first AS timestamptz) AND e.occurred_at < CAST(:after_last AS timestamptz)
            AND NOT EXISTS (
                SELECT FROM outbox o
                WHERE o.topic = 'usage' AND o.payload ->> 'event_id' = CAST(e.event_id AS text))
        GROUP BY 1, {_DIMENSION_LIST}
    ), due AS (
        SELECT source, c.* FROM recomputed c, (VALUES ('rollup_minute'), ('rollup_hour'), ('rollup_day')) s (source)
    ), rolled AS ({_ROLLED})
    SELECT coalesce(sum(abs(coalesce(c.amount_nanousd, 0) - coalesce(r.amount_nanousd, 0))), 0),
        coalesce(sum(abs(coalesce(c.tokens, 0) - coalesce(r.tokens, 0))), 0),
        coalesce(sum(abs(coalesce(c.requests, 0) - coalesce(r.requests, 0))), 0)
    FROM due c FULL JOIN rolled r USING (source, bucket, {_DIMENSION_LIST})
    """
)


_FOLDS_KEY = 7_466_011_208_423_519
_FOLDING = text("SELECT pg_advisory_xact_lock_shared(:key)")
_NOBODY_FOLDS = text("SELECT pg_advisory_xact_lock(:key)")


def _rebuild(model: _Rollups, unit: str) -> str:
    table = model.__tablename__
    return f"""
    INSERT INTO {table} (bucket, {_DIMENSION_LIST}, requests, {", ".join(_SUMS)})
    SELECT date_trunc('{unit}', e.occurred_at, 'UTC'), {_DIMENSION_LIST},
        count(*) FILTER (WHERE e.corrects IS NULL AND e.kind = 'request'), {_EVENT_SUMS}
    FROM usage_event e
    WHERE e.occurred_at >= CAST(:first AS timestamptz) AND e.occurred_at < CAST(:after_last AS timestamptz)
        AND NOT EXISTS (
            SELECT FROM outbox o WHERE o.topic = 'usage' AND o.payload ->> 'event_id' = CAST(e.event_id AS text))
    GROUP BY 1, {_DIMENSION_LIST}
    """


@dataclass(frozen=True, slots=True)
class Drift:
    """How far the rollups are from the events, summed without regard to sign over the three tables."""

    nanousd: int = 0
    tokens: int = 0
    requests: int = 0

    def __add__(self, other: "Drift") -> "Drift":
        return Drift(self.nanousd + other.nanousd, self.tokens + other.tokens, self.requests + other.requests)

    def __bool__(self) -> bool:
        return bool(self.nanousd or self.tokens or self.requests)


@dataclass(frozen=True, slots=True)
class Taken:
    """Events that are counted now, and never again, by their primary key: one list for each of its parts."""

    times: Sequence[datetime]
    ids: Sequence[UUID]


async def fold_usage(
    connection: WriteConnection,
    limit: int,
    also: Sequence[Callable[[WriteConnection, Taken], Awaitable[None]]] = (),
) -> int:
    """Add up to `limit` outbox rows to the rollups, whichever other workers do not hold; how many were added. `also`:
    what else counts the same events, in the same transaction."""
    await share_folding(connection)
    found = (await connection.execute(_TAKE, {"limit": limit})).all()
    if not found:
        return 0
    taken = Taken([row.occurred_at for row in found], [row.event_id for row in found])
    result = await connection.execute(_SUM, {"times": taken.times, "ids": taken.ids})
    rows: list[dict[str, Any]] = [dict(row) for row in result.mappings()]
    if any(row["bucket"] is None for row in rows):
        raise LookupError("the outbox names an event that does not exist")
    document = msgspec.json.encode(rows).decode()
    for upsert in _UPSERTS:
        await connection.execute(upsert, {"rows": document})
    for count in also:
        await count(connection, taken)
    failpoint("rollup.before_commit")
    return sum(row["events"] for row in rows)


async def share_folding(connection: WriteConnection) -> None:
    """Until the transaction ends nobody makes counted rows anew."""
    await connection.execute(_FOLDING, {"key": _FOLDS_KEY})


async def stop_folding(connection: WriteConnection) -> None:
    """Until the transaction ends nobody counts; what others have counted is committed."""
    await connection.execute(_NOBODY_FOLDS, {"key": _FOLDS_KEY})


async def rollup_drift(connection: WriteConnection, first: date, after_last: date) -> Drift:
    """The recompute of the days from `first` to before `after_last` (UTC)."""
    await connection.execute(text("SET LOCAL statement_timeout = '5min'"))  # a busy day has many events
    bounds = {"first": _midnight(first), "after_last": _midnight(after_last)}
    row = (await connection.execute(_DRIFT, bounds)).one()
    return Drift(int(row[0]), int(row[1]), int(row[2]))


async def rebuild_day(connection: WriteConnection, day: date) -> Drift:
    """Make the rollups of a day (UTC) anew from its events, while nobody folds; by how much they were wrong. What is
    still in the outbox is added when it is folded."""
    await stop_folding(connection)
    drift = await rollup_drift(connection, day, day + timedelta(days=1))
    bounds = {"first": _midnight(day), "after_last": _midnight(day + timedelta(days=1))}
    for model, unit in _TABLES:
        table = model.__tablename__
        await connection.execute(
            text(
                f"DELETE FROM {table} WHERE bucket >= CAST(:first AS timestamptz)"
                " AND bucket < CAST(:after_last AS timestamptz)"
            ),
            bounds,
        )
        await connection.execute(text(_rebuild(model, unit)), bounds)
    return drift


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, tzinfo=UTC)
