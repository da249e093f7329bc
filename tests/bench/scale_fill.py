"""A ledger of any size, made by the server itself: events over monthly partitions, and the rollups of all of them.

One tenant holds half of the events, the others share the rest unevenly; a key uses two models and one class; the days
have a night. Tables are filled before their indexes are built, which is several times quicker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import asyncpg

__all__ = ["DAYS", "Scale", "fill"]

DAYS = 120
TENANTS = 200
KEYS, KEYS_OF_BIG = 4, 40
USERS, USERS_OF_BIG = 200, 20_000
MODELS = 12

_EVENTS = """
INSERT INTO {partition} (occurred_at, event_id, request_id, tenant_id, key_id, user_ref, served_model, route_id, pool_id,
    endpoint, request_class, is_stream, status, error_code, prompt_uncached_tokens, prompt_cached_tokens,
    completion_tokens, reasoning_tokens, input_nanousd, cached_input_nanousd, output_nanousd, amount_nanousd,
    over_hold_nanousd, price_input_id, price_cached_input_id, price_output_id, queue_ms, ttft_ms, e2e_ms, tpot_us,
    client_retry_count, corrects, recorded_at)
SELECT at, gen_random_uuid(), 'req_' || md5('{month}' || i), 'proj_' || tenant,
    'key_' || tenant || '_' || key,
    CASE WHEN r4 > 0.3 THEN md5(tenant || '/' || floor(r5 * CASE WHEN tenant = 1 THEN {users_of_big} ELSE {users} END)) END,
    CASE WHEN is_embedding THEN 'embed' ELSE 'model-' || model END, 'route_1', 'pool_' || model % 6,
    CASE WHEN is_embedding THEN 'embeddings' WHEN r6 < 0.85 THEN 'chat.completions' ELSE 'completions' END,
    CASE WHEN (tenant + key) % 10 = 9 THEN 'batch' ELSE 'interactive' END, r8 < 0.7, status,
    CASE WHEN status = 'error' THEN 'server_error' END,
    uncached, cached, completion, 0, 100 * uncached, 10 * cached, 400 * completion,
    100 * uncached + 10 * cached + 400 * completion, 0, 1, 2, 3,
    (r3 * 20)::int, 40 + (r5 * 400)::int, 300 + (r6 * 9000)::int, 8000 + (r7 * 9000)::int, 0, NULL, at
FROM (
    SELECT i, at, tenant, key, r3, r4, r5, r6, r7, r8, r9 < 0.08 AS is_embedding,
        (tenant * 7 + key * 3 + (r10 < 0.2)::int) % {models} AS model,
        CASE WHEN r11 < 0.97 THEN 'ok' WHEN r11 < 0.985 THEN 'cancelled' WHEN r11 < 0.993 THEN 'error'
            WHEN r11 < 0.998 THEN 'partial' ELSE 'unknown' END AS status,
        (20 + 3000 * r3 * r5)::bigint AS uncached, (CASE WHEN r8 < 0.5 THEN 2000 * r6 ELSE 0 END)::bigint AS cached,
        CASE WHEN r9 < 0.08 THEN 0 ELSE (1 + 900 * r5 * r7)::bigint END AS completion
    FROM (
        SELECT *, floor(power(random(), 2) * CASE WHEN tenant = 1 THEN {keys_of_big} ELSE {keys} END)::int AS key
        FROM (
        SELECT i, random() AS r3, random() AS r4, random() AS r5, random() AS r6, random() AS r7, random() AS r8,
            random() AS r9, random() AS r10, random() AS r11,
            CASE WHEN random() < 0.5 THEN 1 ELSE 2 + floor(power(random(), 2) * {others})::int END AS tenant,
            timestamptz '{first}' + interval '1 day' * floor(random() * {days})
                + interval '1 microsecond' * floor(86400e6 * (random() + random()) / 2) AS at
        FROM generate_series(1, {rows}) AS i
        ) AS drawn
    ) AS keyed
) AS made
ORDER BY at
"""
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
_DIMENSIONS = "tenant_id, key_id, served_model, pool_id, endpoint, request_class, status"
_ROLLUP = """
INSERT INTO {target} (bucket, {dimensions}, requests, {names})
SELECT date_trunc('{unit}', {at}, 'UTC'), {dimensions}, {count}, {sums}
FROM {source} GROUP BY 1, {dimensions} ORDER BY 1
"""


@dataclass(frozen=True)
class Scale:
    """`rows` events in the `DAYS` days before `until`."""

    rows: int
    until: datetime

    def months(self) -> list[tuple[datetime, int]]:
        """The first day of each month's share, and its days."""
        day = (self.until - timedelta(days=DAYS)).replace(hour=0, minute=0, second=0, microsecond=0)
        last, found = day + timedelta(days=DAYS), []
        while day < last:
            following = min((day.replace(day=1) + timedelta(days=32)).replace(day=1), last)
            found.append((day, (following - day).days))
            day = following
        return found


async def fill(url: str, scale: Scale, say: Callable[[str], None] = lambda text: None) -> None:
    """Into a migrated, empty database. Half of the months at a time on each of two connections."""
    connection = await asyncpg.connect(url)
    await _names(connection)
    for (partition,) in await connection.fetch(
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'usage_event'::regclass"
    ):
        await connection.execute(f"DROP TABLE {partition}")
    await _two_at_a_time(url, [_month(scale, first, days) for first, days in scale.months()])
    say("events")
    await _rollups(connection)
    say("rollups")
    await connection.execute("SELECT ensure_usage_partitions(now()::date, 3)")
    await connection.execute("ANALYZE")
    await connection.close()
    say("analyzed")


def _month(scale: Scale, first: datetime, days: int) -> Callable[[asyncpg.Connection], Awaitable[None]]:
    month = first.astimezone(UTC).replace(day=1)
    following = (month + timedelta(days=32)).replace(day=1)
    partition = f"usage_event_{month:%Y_%m}"

    async def run(connection: asyncpg.Connection) -> None:
        await connection.execute(
            f"CREATE TABLE {partition} (LIKE usage_event INCLUDING DEFAULTS INCLUDING CONSTRAINTS)"
        )
        await connection.execute(
            _EVENTS.format(
                partition=partition,
                month=f"{month:%Y_%m}",
                first=first.isoformat(),
                days=days,
                rows=scale.rows * days // DAYS,
                keys=KEYS,
                keys_of_big=KEYS_OF_BIG,
                users=USERS,
                users_of_big=USERS_OF_BIG,
                models=MODELS,
                others=TENANTS - 1,
            ),
            timeout=3_600,
        )
        bounds = f"FROM ('{month.isoformat()}') TO ('{following.isoformat()}')"
        await connection.execute(
            f"ALTER TABLE usage_event ATTACH PARTITION {partition} FOR VALUES {bounds}", timeout=3_600
        )

    return run


async def _two_at_a_time(url: str, work: list[Callable[[asyncpg.Connection], Awaitable[None]]]) -> None:
    async def some(share: list[Callable[[asyncpg.Connection], Awaitable[None]]]) -> None:
        connection = await asyncpg.connect(url)
        try:
            for step in share:
                await step(connection)
        finally:
            await connection.close()

    await asyncio.gather(some(work[::2]), some(work[1::2]))


async def _rollups(connection: asyncpg.Connection) -> None:
    """Each from the next finer one; their keys are built afterwards."""
    steps = (
        ("minute", "usage_event", "occurred_at", "count(*)"),
        ("hour", "rollup_minute", "bucket", "sum(requests)"),
        ("day", "rollup_hour", "bucket", "sum(requests)"),
    )
    for unit, source, at, count in steps:
        target = f"rollup_{unit}"
        await connection.execute(f"ALTER TABLE {target} DROP CONSTRAINT pk_{target}")
        await connection.execute(f"DROP INDEX ix_{target}_tenant_id_bucket")
        statement = _ROLLUP.format(
            target=target,
            unit=unit,
            source=source,
            at=at,
            count=count,
            dimensions=_DIMENSIONS,
            names=", ".join(_SUMS),
            sums=", ".join(f"sum({name})" for name in _SUMS),
        )
        await connection.execute(statement, timeout=3_600)
        key = f"ALTER TABLE {target} ADD CONSTRAINT pk_{target} PRIMARY KEY (bucket, {_DIMENSIONS})"
        await connection.execute(key, timeout=3_600)
        await connection.execute(f"CREATE INDEX ix_{target}_tenant_id_bucket ON {target} (tenant_id, bucket)")


async def _names(connection: asyncpg.Connection) -> None:
    """The tenants and keys that the events name, so that the lists of those are as long as they would be."""
    await connection.execute(
        f"INSERT INTO tenant (id, name) SELECT 'proj_' || i, 'tenant ' || i FROM generate_series(1, {TENANTS}) i"
    )
    await connection.execute(
        f"""
        INSERT INTO api_key (tenant_id, id, name, public_id, secret_hmac, pepper_id)
        SELECT 'proj_' || t, 'key_' || t || '_' || k, 'key ' || k, 'public_' || t || '_' || k,
            decode(repeat('00', 32), 'hex'), 'none'
        FROM generate_series(1, {TENANTS}) t, generate_series(0, {KEYS_OF_BIG} - 1) k WHERE t = 1 OR k < {KEYS}
        """
    )
