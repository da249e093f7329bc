"""Counting: what was settled or refused is added to the sums of its minute, hour and day, exactly once.

The addition commits with what takes its cause away: the outbox row of an event, or what a refusal row says is counted.
Rows go in key order, one table after the other, so that workers that share buckets wait for each other. There are no
time watermarks: what becomes known late is added to the minute in which it happened.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import text

from gateway.db import WriteConnection
from gateway.ledger.repository.rollups import Taken, share_folding, stop_folding
from gateway.obs.failpoints import failpoint
from gateway.slo.counting import LATENCIES, Answered, Counts, Refused, counted, truncated
from gateway.slo.matching import Thresholds
from gateway.slo.repository.objectives import all_objectives
from gateway.slo.types import Objective

__all__ = ["count_answers", "count_refusals", "recount"]

_SLO_KEY = ("bucket", "tenant_id", "served_model", "request_class", "sli", "threshold_us")
_LATENCY_KEY = ("bucket", "tenant_id", "served_model", "request_class", "pool_id")
_UNITS = ("minute", "hour", "day")
# Corrections change what a request cost, not how it ended for its caller.
_ANSWERED = text(
    """
    SELECT coalesce(e.late_from, e.occurred_at) AS at, e.tenant_id, e.served_model, e.request_class, e.pool_id, e.status,
        e.error_code, e.is_stream, e.ttft_ms, e.tpot_us, e.e2e_ms
    FROM unnest(CAST(:times AS timestamptz[]), CAST(:ids AS uuid[])) AS taken (occurred_at, event_id)
        JOIN usage_event e USING (occurred_at, event_id)
    WHERE e.kind = 'request' AND e.corrects IS NULL
    """
)
_REFUSED = text(
    """
    WITH due AS (
        SELECT ctid, requests - counted AS more FROM refusal_minute WHERE counted <> requests
        ORDER BY bucket LIMIT :limit FOR UPDATE SKIP LOCKED
    )
    UPDATE refusal_minute r SET counted = r.requests FROM due WHERE r.ctid = due.ctid
    RETURNING r.bucket AS at, r.tenant_id, r.served_model, r.reason, due.more AS requests
    """
)


def _ordered(names: tuple[str, ...]) -> str:
    return ", ".join(
        ["bucket", *(f'{name} COLLATE "C"' if name != "threshold_us" else name for name in names[1:])]
    )


def _slo_upsert(unit: str) -> str:
    table, key = f"slo_{unit}", ", ".join(_SLO_KEY)
    return f"""
    INSERT INTO {table} ({key}, good, total)
    SELECT {key}, good, total FROM json_populate_recordset(CAST(NULL AS {table}), CAST(:rows AS json))
    ORDER BY {_ordered(_SLO_KEY)}
    ON CONFLICT ({key}) DO UPDATE SET good = {table}.good + EXCLUDED.good, total = {table}.total + EXCLUDED.total
    """


def _latency_upsert(unit: str) -> str:
    table, key = f"latency_{unit}", ", ".join(_LATENCY_KEY)
    sums = ", ".join(f"{name} = histogram_sum({table}.{name}, EXCLUDED.{name})" for name in LATENCIES)
    return f"""
    INSERT INTO {table} ({key}, {", ".join(LATENCIES)})
    SELECT {key}, {", ".join(LATENCIES)} FROM json_populate_recordset(CAST(NULL AS {table}), CAST(:rows AS json))
    ORDER BY {_ordered(_LATENCY_KEY)}
    ON CONFLICT ({key}) DO UPDATE SET {sums}
    """


_UPSERTS = {unit: (text(_slo_upsert(unit)), text(_latency_upsert(unit))) for unit in _UNITS}


def _forget(unit: str) -> str:
    return f"""
    DELETE FROM slo_{unit} WHERE bucket >= :since AND sli = :sli AND threshold_us = :threshold
        AND request_class = :request_class AND tenant_id = coalesce(:tenant_id, tenant_id)
        AND served_model = coalesce(:served_model, served_model)
    """


def _again(unit: str) -> str:
    """The counts of values at or below the threshold: it is a bound, so they are exact."""
    return f"""
    INSERT INTO slo_{unit} (bucket, tenant_id, served_model, request_class, sli, threshold_us, good, total)
    SELECT bucket, tenant_id, served_model, request_class, :sli, :threshold,
        coalesce(sum(each.number::bigint) FILTER (WHERE each.bound::bigint <= :threshold), 0), sum(each.number::bigint)
    FROM latency_{unit} l, jsonb_each_text(CASE :sli WHEN 'ttft' THEN l.ttft ELSE l.tpot END) AS each (bound, number)
    WHERE bucket >= :since AND request_class = :request_class AND tenant_id = coalesce(:tenant_id, tenant_id)
        AND served_model = coalesce(:served_model, served_model)
    GROUP BY bucket, tenant_id, served_model, request_class
    """


_RECOUNT = tuple((text(_forget(unit)), text(_again(unit)), unit) for unit in _UNITS)
_RECOUNTED = text("UPDATE objective SET is_recounted = true WHERE id = :id AND threshold_us = :threshold")


async def count_answers(connection: WriteConnection, taken: Taken) -> None:
    """In the transaction that takes the events' outbox rows, after `share_folding`."""
    rows = await connection.execute(_ANSWERED, {"times": taken.times, "ids": taken.ids})
    answered = [Answered(**row) for row in rows.mappings()]
    if answered:
        thresholds = Thresholds(await all_objectives(connection))
        await _add(connection, counted(answered, (), thresholds))


async def count_refusals(connection: WriteConnection, limit: int) -> int:
    """Up to `limit` rows of refusals that have grown since they were counted; how many they were. A run of a gateway
    writes sums that only grow, in an outage later than others: what is new of each is added to its own minute."""
    await share_folding(connection)
    rows = (await connection.execute(_REFUSED, {"limit": limit})).mappings().all()
    if rows:
        await _add(connection, counted((), [Refused(**row) for row in rows], Thresholds(())))
    failpoint("slo.refusals_counted")
    return len(rows)


async def recount(connection: WriteConnection, objective: Objective, since: datetime) -> None:
    """Counts by the objective's threshold from what the histograms have, in place of what is there by now. Nobody
    counts meanwhile, so nothing is left out and nothing counts twice."""
    await connection.execute(text("SET LOCAL statement_timeout = '5min'"))
    await stop_folding(connection)
    if objective.sli != "availability":
        for forget, again, unit in _RECOUNT:
            scope: dict[str, Any] = {
                "since": truncated(since, unit),
                "sli": objective.sli,
                "threshold": objective.threshold_us,
                "tenant_id": objective.tenant_id,
                "served_model": objective.served_model,
                "request_class": objective.request_class,
            }
            await connection.execute(forget, scope)
            await connection.execute(again, scope)
    await connection.execute(_RECOUNTED, {"id": objective.id, "threshold": objective.threshold_us})


async def _add(connection: WriteConnection, found: dict[str, Counts]) -> None:
    for unit in _UNITS:
        slo, latency = _UPSERTS[unit]
        counts = found[unit]
        if counts.sums:
            await connection.execute(slo, {"rows": _slo_rows(counts)})
        if counts.histograms:
            await connection.execute(latency, {"rows": _latency_rows(counts)})


def _slo_rows(counts: Counts) -> str:
    rows = [
        {**dict(zip(_SLO_KEY, key, strict=True)), "good": sums.good, "total": sums.total}
        for key, sums in counts.sums.items()
    ]
    return msgspec.json.encode(rows).decode()


def _latency_rows(counts: Counts) -> str:
    rows = [
        {**dict(zip(_LATENCY_KEY, key, strict=True)), **histograms}
        for key, histograms in counts.histograms.items()
    ]
    return msgspec.json.encode(rows).decode()
