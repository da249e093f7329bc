"""Exports of a month: time, size and the most memory that a process of its own held, for two sizes of ledger.

    python -m tests.bench.exports [events] [format …]

Memory must not grow with the events. Each export runs in a fresh process, as `tollway export` does.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import asyncpg

from gateway.db import Database
from gateway.exports.service import export
from gateway.exports.store import DirectoryStore
from gateway.exports.types import FORMATS, FormatName, spec_from
from gateway.local.postgres import EmbeddedPostgres
from gateway.migrate import migrate

_FILL = """
INSERT INTO usage_event (occurred_at, event_id, request_id, tenant_id, key_id, user_ref, served_model, route_id, pool_id,
    endpoint, request_class, is_stream, status, prompt_uncached_tokens, prompt_cached_tokens, completion_tokens,
    reasoning_tokens, input_nanousd, cached_input_nanousd, output_nanousd, amount_nanousd, over_hold_nanousd,
    price_input_id, price_cached_input_id, price_output_id, queue_ms, ttft_ms, e2e_ms, tpot_us, client_retry_count,
    recorded_at)
SELECT at, gen_random_uuid(), 'req_' || md5(i::text), 'proj_' || i % 50, 'key_' || i % 50, md5((i % 5000)::text),
    'model-' || i % 8, 'route_1', 'pool_' || i % 4, 'chat.completions', 'interactive', true, 'ok', 700, 100, 200, 0,
    70000, 1000, 80000, 151000, 0, 1, 2, 3, 5, 120, 4000, 15000, 0,
    at + CASE WHEN i % 1000 = 0 THEN interval '5 hours' ELSE interval '1 second' END
FROM (SELECT i, timestamptz '2026-01-01Z' + interval '31 days' * ((i - 0.5) / {rows}) AS at
    FROM generate_series(1, {rows}) AS i) AS made
"""
_SETUP = (
    "SELECT ensure_usage_partitions('2026-01-01', 1)",
    "INSERT INTO price (sku, component, valid_from, nanousd_per_token) VALUES ('m', 'input', '2026-01-01Z', 100),"
    " ('m', 'cached_input', '2026-01-01Z', 10), ('m', 'output', '2026-01-01Z', 400)",
    "INSERT INTO tenant (id, name) SELECT 'proj_' || i, 'x' FROM generate_series(0, 49) AS i",
    "INSERT INTO stripe_customer SELECT 'proj_' || i, 'cus_' || i, '2026-01-01Z' FROM generate_series(0, 49) AS i",
    "INSERT INTO billing_period (period_key, starts_at, ends_at, requests, tokens, amount_nanousd)"
    " VALUES ('2026-01', '2026-01-01Z', '2026-02-01Z', 0, 0, 0)",
)
_CHILD = """
import asyncio, json, resource, sys, time
from tests.bench.exports import one
started = time.perf_counter()
size = asyncio.run(one(*sys.argv[1:]))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([time.perf_counter() - started, time.process_time(), size, peak]))
"""


async def one(url: str, root: str, name: str) -> int:
    """Exports the month; the bytes of its files."""
    database = Database(url, name="bench-exports", pool_size=2)
    spec = spec_from(name, None, month="2026-01", start=None, end=None)
    manifest = json.loads(await export(database, DirectoryStore(Path(root)), spec, lambda done, total: None))
    await database.close()
    return sum(file["bytes"] for file in manifest["files"])


async def _filled(admin_url: str, rows: int) -> str:
    admin = await asyncpg.connect(admin_url)
    await admin.execute(f"CREATE DATABASE bench_{rows}")
    await admin.close()
    url = admin_url.rpartition("/")[0] + f"/bench_{rows}"
    await migrate(url)
    connection = await asyncpg.connect(url)
    for statement in (*_SETUP, _FILL.format(rows=rows), "ANALYZE usage_event"):
        await connection.execute(statement, timeout=600)
    await connection.close()
    return url


def _measure(url: str, root: Path, name: FormatName) -> tuple[float, float, int, int]:
    arguments = [sys.executable, "-c", _CHILD, url, str(root), name]
    found = json.loads(subprocess.run(arguments, capture_output=True, text=True, check=True).stdout)
    return found[0], found[1], found[2], found[3]


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory(prefix="tollway-bench-") as directory:
        Path(directory).chmod(0o711)
        server = EmbeddedPostgres(Path(directory), durable=False)
        server.start()
        try:
            sizes = (events // 10, events)
            urls = [asyncio.run(_filled(server.url("postgres"), rows)) for rows in sizes]
            print(f"{'format':8} {'events':>10} {'seconds':>8} {'CPU s':>7} {'MB':>8} {'peak MiB':>9}")
            for name in [name for name in FORMATS if name in sys.argv[2:] or len(sys.argv) < 3]:
                for rows, url in zip(sizes, urls, strict=True):
                    seconds, cpu, size, peak = _measure(url, Path(directory) / f"out-{rows}", name)
                    print(
                        f"{name:8} {rows:>10,} {seconds:>8.1f} {cpu:>7.1f} {size / 1e6:>8.1f} {peak / 1024:>9.0f}",
                        flush=True,
                    )
        finally:
            server.stop()


if __name__ == "__main__":
    main()
