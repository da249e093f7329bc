"""How long the board, its charts and the worker's evaluation take over what ten million requests of a month leave behind:
`python -m tests.bench.slo_scale [--events 10000000]`.

Two hundred tenants, twelve models, two classes; half of the requests are one tenant's. The requests are drawn in the
database and counted there as the worker counts them; then a gateway is asked over HTTP. The bar is 300 ms for each.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import asyncpg

from gateway.clock import SystemClock
from gateway.db import Database
from gateway.local.valkey import EmbeddedValkey
from gateway.migrate import migrate
from gateway.slo.evaluator import Evaluator
from tests.bench.ledger_scale import _cpu_ms, _postmaster, _server
from tests.bench.slo_fill import DAYS, count_drawn
from tests.harness import Gateway

BAR_MS = 300
ROUNDS = 15
_DRAW = """
CREATE UNLOGGED TABLE drawn AS
SELECT at, 'proj_' || tenant AS tenant_id, 'model-' || model AS served_model,
    CASE WHEN (tenant + model) % 10 = 9 THEN 'batch' ELSE 'interactive' END AS request_class, 'pool_' || model % 6 AS pool_id,
    r1 < 0.998 AS good, (100000 + 900000 * r2 * r3)::bigint AS ttft, (8000 + 40000 * r4 * r2)::bigint AS tpot,
    (500000 + 20000000 * r3 * r4)::bigint AS e2e
FROM (
    SELECT now() - interval '1 microsecond' * floor(random() * {days} * 86400e6) AS at,
        CASE WHEN random() < 0.5 THEN 1 ELSE 2 + floor(power(random(), 2) * 199)::int END AS tenant,
        floor(power(random(), 2) * 12)::int AS model,
        random() AS r1, random() AS r2, random() AS r3, random() AS r4
    FROM generate_series(1, {rows})
) AS made
"""
_SIZES = """
SELECT relname, reltuples::bigint, pg_size_pretty(pg_total_relation_size(oid)) FROM pg_class
WHERE relkind = 'r' AND (relname LIKE 'slo_%' OR relname LIKE 'latency_%') ORDER BY 1
"""


async def fill(url: str, rows: int) -> None:
    await migrate(url)
    connection = await asyncpg.connect(url)
    started = time.monotonic()
    await connection.execute("SET work_mem = '512MB'")
    await connection.execute(_DRAW.format(rows=rows, days=DAYS), timeout=3_600)
    await count_drawn(
        connection, lambda text: print(f"{time.monotonic() - started:6.0f} s: {text}", flush=True)
    )
    await connection.execute("VACUUM ANALYZE", timeout=3_600)
    for name, count, size in await connection.fetch(_SIZES):
        print(f"{name:16} {count:>12,} rows {size}")
    await connection.close()


def questions(now: int, draw: random.Random) -> dict[str, str]:
    small = f"proj_{draw.randrange(2, 201)}"

    def series(width: str, seconds: int, more: str = "") -> str:
        return f"/slo/series?start_time={now - seconds}&end_time={now}&bucket_width={width}{more}"

    return {
        "the board": "/slo/board",
        "the board, 100 lines": "/slo/board?limit=100",
        "the board, page 5": "/slo/board?limit=100&page=page_190",
        "the board, a project": f"/slo/board?project_ids={small}",
        "series, 4 hours by minute, all": series("1m", 14_400, "&limit=240"),
        "series, 4 hours by minute, the big project": series("1m", 14_400, "&limit=240&project_ids=proj_1"),
        "series, a week by hour, all": series("1h", 604_800, "&limit=168"),
        "series, a week by hour, a project and model": series(
            "1h", 604_800, f"&limit=168&project_ids={small}&models=model-1"
        ),
        "series, a month by day, all": series("1d", 30 * 86_400),
        "series, a month by day, the big project": series("1d", 30 * 86_400, "&project_ids=proj_1"),
    }


async def ask(url: str, cache_url: str, directory: Path, seed: int, postmaster: int) -> None:
    draw = random.Random(seed)
    taken: dict[str, list[tuple[float, float]]] = {}
    database = Database(url, name="bench-evaluator", pool_size=2)
    evaluator = Evaluator(database, SystemClock())
    async with Gateway(url, cache_url, directory) as gateway:
        for _ in range(ROUNDS + 1):
            started, cpu = time.perf_counter(), _cpu_ms(postmaster)
            states = await evaluator.run_once()
            name = f"evaluation of {len(states)} series (the worker's)"
            taken.setdefault(name, []).append((_ms(started), _cpu_ms(postmaster) - cpu))
            for name, path in questions(int(datetime.now(UTC).timestamp()), draw).items():
                started, cpu = time.perf_counter(), _cpu_ms(postmaster)
                answer = await gateway.request("GET", f"/v1/organization{path}", key=gateway.admin_key)
                body = await answer.read()
                assert answer.status == 200, body
                taken.setdefault(name, []).append((_ms(started), _cpu_ms(postmaster) - cpu))
    await database.close()
    print(f"{'question':56} {'p50 ms':>8} {'CPU p50':>8} {'CPU max':>8}")
    for name, times in taken.items():
        wall, cpu_ms = zip(*times[1:], strict=True)  # the first one fills caches
        mark = "" if median(cpu_ms) < BAR_MS else "  over the bar"
        print(f"{name:56} {median(wall):8.1f} {median(cpu_ms):8.1f} {max(cpu_ms):8.1f}{mark}")
    print("load average", *(f"{load:.1f}" for load in os.getloadavg()))


def _ms(started: float) -> float:
    return (time.perf_counter() - started) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="tollway-bench-"))
    directory.chmod(0o711)
    server, valkey = _server(directory), EmbeddedValkey(directory)
    valkey.start()
    try:
        asyncio.run(fill(server.url(), arguments.events))
        asyncio.run(ask(server.url(), valkey.url(), directory / "spool", arguments.seed, _postmaster(server)))
    finally:
        valkey.stop()
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
