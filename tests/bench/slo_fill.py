"""What the worker would have counted of drawn requests, made by the server itself: good and total, and the histograms.

The requests are in a table `drawn` (at, tenant_id, served_model, request_class, pool_id, good, ttft, tpot, e2e), times in
microseconds. `of_ledger` makes it from a filled ledger (scale_fill.py), moved so that its last day's noon is now: a board
shows the last hour.
"""

from __future__ import annotations

from collections.abc import Callable

import asyncpg

from gateway.clock import SystemClock
from gateway.db import Database
from gateway.slo.evaluator import Evaluator

__all__ = ["DAYS", "count_drawn", "of_ledger"]

DAYS = 30
KEPT = {"minute": 8, "hour": DAYS, "day": DAYS}
_WHOSE = "CROSS JOIN LATERAL (VALUES (d.tenant_id), ('*')) AS whose (owner)"
_SLO = """
INSERT INTO slo_{unit}
SELECT date_trunc('{unit}', d.at, 'UTC'), owner, served_model, request_class, sli, threshold, count(*) FILTER (WHERE is_good),
    count(*)
FROM drawn d {whose}
CROSS JOIN LATERAL (VALUES ('availability', 0, good), ('ttft', 800000, ttft <= 800000), ('tpot', 40000, tpot <= 40000))
    AS s (sli, threshold, is_good)
WHERE d.at > now() - interval '{kept} days' GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4, 5, 6
"""
_BOUND = "(ceil(value / power(10, floor(log(value)) - 1)) * power(10, floor(log(value)) - 1))::bigint"
_LATENCY = """
INSERT INTO latency_{unit}
SELECT bucket, owner, served_model, request_class, pool_id,
    coalesce(jsonb_object_agg(bound, number) FILTER (WHERE name = 'ttft'), '{{}}'),
    coalesce(jsonb_object_agg(bound, number) FILTER (WHERE name = 'tpot'), '{{}}'),
    coalesce(jsonb_object_agg(bound, number) FILTER (WHERE name = 'e2e'), '{{}}')
FROM (
    SELECT date_trunc('{unit}', d.at, 'UTC') AS bucket, owner, served_model, request_class, pool_id, name, {bound} AS bound,
        count(*) AS number
    FROM drawn d {whose} CROSS JOIN LATERAL (VALUES ('ttft', ttft), ('tpot', tpot), ('e2e', e2e)) AS l (name, value)
    WHERE d.at > now() - interval '{kept} days' GROUP BY 1, 2, 3, 4, 5, 6, 7
) AS counted GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5
"""
_OF_LEDGER = f"""
CREATE UNLOGGED TABLE drawn AS
SELECT occurred_at + moved AS at, tenant_id, served_model, request_class, pool_id, status IN ('ok', 'cancelled') AS good,
    ttft_ms * 1000::bigint AS ttft, coalesce(tpot_us, 0)::bigint AS tpot, e2e_ms * 1000::bigint AS e2e
FROM usage_event, {{moved}} WHERE occurred_at > now() - moved - interval '{DAYS} days' AND occurred_at <= now() - moved
    AND tpot_us > 0 AND ttft_ms > 0
"""
_MOVED = "(SELECT now() - (max(bucket) + interval '12 hours') AS moved FROM rollup_day) AS by"
_SPEEDS = """
INSERT INTO rollup_minute
SELECT (r).* FROM (
    SELECT jsonb_populate_record(m, jsonb_build_object('bucket', date_trunc('minute', bucket + moved))) AS r
    FROM rollup_minute m, {moved}
    WHERE bucket > now() - moved - interval '2 hours' AND bucket <= now() - moved AND moved > interval '2 hours'
) AS later ON CONFLICT DO NOTHING
"""


async def count_drawn(connection: asyncpg.Connection, say: Callable[[str], None]) -> None:
    for unit, kept in KEPT.items():
        for statement in (_SLO, _LATENCY):
            sql = statement.format(unit=unit, kept=kept, whose=_WHOSE, bound=_BOUND)
            await connection.execute(sql, timeout=3_600)
        say(f"by {unit}")
    await connection.execute("DROP TABLE drawn")


async def of_ledger(url: str, say: Callable[[str], None]) -> None:
    """In place of what was counted of it before, unless that was less than an hour ago; judged by the objectives that
    there are."""
    connection = await asyncpg.connect(url)
    if await connection.fetchval("SELECT max(bucket) > now() - interval '1 hour' FROM latency_minute"):
        await connection.close()
        return
    await connection.execute("SET work_mem = '256MB'")
    tables = [f"{what}_{unit}" for unit in KEPT for what in ("slo", "latency")]
    await connection.execute(f"TRUNCATE {', '.join(tables)}")
    await connection.execute("DROP TABLE IF EXISTS drawn")
    await connection.execute(_OF_LEDGER.format(moved=_MOVED), timeout=3_600)
    await connection.execute(_SPEEDS.format(moved=_MOVED), timeout=3_600)
    await count_drawn(connection, say)
    await connection.execute("ANALYZE", timeout=3_600)
    await connection.close()
    database = Database(url, name="bench-evaluator", pool_size=2)
    await Evaluator(database, SystemClock()).run_once()
    await database.close()
    say("judged")
