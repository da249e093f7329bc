"""How long the admin API's questions take over a large ledger: `python -m tests.bench.ledger_scale [--events 10000000]`.

Fills a Postgres of its own (`--data` keeps it for the next run, `--url` names another one), starts a gateway on it and asks
every question of `admin_queries.py` over HTTP, again and again with other tenants, keys, names and times. The bar is a
p95 below 300 ms for each; at the end stands what each page of the console comes to (`pages.py`). Needs 1.4 kB of disk an
event.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import random
import shutil
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles

import asyncpg
import psutil

from gateway.local.postgres import EmbeddedPostgres
from gateway.local.valkey import EmbeddedValkey
from gateway.migrate import migrate
from tests.bench.admin_queries import QUERIES, Facts
from tests.bench.pages import pages_table
from tests.bench.scale_fill import Scale, fill
from tests.bench.slo_fill import of_ledger
from tests.harness import Gateway

BAR_MS = 300
BYTES_PER_EVENT = 1_400
SETTINGS = {
    "shared_buffers": "1GB",
    "effective_cache_size": "8GB",
    "maintenance_work_mem": "512MB",
    "max_wal_size": "8GB",
    "random_page_cost": "1.1",
    "max_parallel_workers_per_gather": "0",
}
"""Of a small server with an SSD; everything else is Postgres's default. Without parallel workers what a question costs
can be counted: `CPU` is what it would take by the clock on a machine with nothing else to do."""


@dataclass(frozen=True)
class Taken:
    """By the clock, and by the processors: Postgres's processes and the gateway's together."""

    wall_ms: float
    cpu_ms: float


async def ask(
    url: str, cache_url: str, directory: Path, rounds: int, seed: int, postmaster: int | None
) -> dict[str, list[Taken]]:
    """Per question. The first round is not counted: it fills caches and plans."""
    draw = random.Random(seed)
    taken: dict[str, list[Taken]] = {name: [] for name in QUERIES}
    async with Gateway(url, cache_url, directory) as gateway:
        facts = await Facts.of(gateway)
        gc.collect()
        gc.freeze()  # the client's and the tests' modules are in this process, and in no gateway
        for number in range(rounds + 1):
            for name, question in QUERIES.items():
                path = f"/v1/organization{question(facts, draw)}"
                started, cpu = time.perf_counter(), _cpu_ms(postmaster)
                answer = await gateway.request("GET", path, key=gateway.admin_key)
                body = await answer.read()
                wall_ms = (time.perf_counter() - started) * 1000
                assert answer.status == 200, (path, body)
                if number:
                    taken[name].append(Taken(wall_ms, _cpu_ms(postmaster) - cpu))
    return taken


def _cpu_ms(postmaster: int | None) -> float:
    """Of this process and of the server's, as far as they still live: parallel workers are switched off."""
    pids = [os.getpid()]
    if postmaster is not None:
        pids += [child.pid for child in psutil.Process(postmaster).children()]
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):  # gone in the meantime
            total += int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
    return total / 1e6


def table(taken: dict[str, list[Taken]]) -> str:
    lines = [f"{'question':52} {'p50 ms':>8} {'p95 ms':>8} {'CPU p50':>8} {'CPU p95':>8}"]
    columns = {
        name: ([one.wall_ms for one in times], [one.cpu_ms for one in times]) for name, times in taken.items()
    }
    for name, (wall, cpu) in sorted(columns.items(), key=lambda item: -_p95(item[1][1])):
        mark = "" if _p95(wall) < BAR_MS else "  over the bar"
        lines.append(
            f"{name:52} {median(wall):8.1f} {_p95(wall):8.1f} {median(cpu):8.1f} {_p95(cpu):8.1f}{mark}"
        )
    return "\n".join(lines)


def _p95(times: list[float]) -> float:
    return quantiles(times, n=20, method="inclusive")[-1]


async def filled(url: str, rows: int) -> None:
    started = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - started:7.0f} s: {what}", flush=True)

    await migrate(url)
    connection = await asyncpg.connect(url)
    is_empty = await connection.fetchval("SELECT NOT EXISTS (SELECT FROM usage_event)")
    if is_empty:
        await fill(url, Scale(rows, datetime.now(UTC)), say)
        await connection.execute("VACUUM ANALYZE", timeout=3_600)
        say("vacuumed")
    await of_ledger(url, say)
    await connection.execute("DELETE FROM admin_api_key")  # of an earlier run: this one makes its own
    sizes = await connection.fetch(_SIZES)
    print(", ".join(f"{name} {count:,} rows {size}" for name, count, size in sizes))
    await connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, help="where the server's files are kept, for the next run")
    parser.add_argument("--url", help="an empty database, or one filled by an earlier run")
    arguments = parser.parse_args()
    directory = arguments.data or Path(tempfile.mkdtemp(prefix="tollway-bench-"))
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o711)
    free = shutil.disk_usage(directory).free
    if not arguments.url and free < arguments.events * BYTES_PER_EVENT:
        parser.error(f"{directory} has {free >> 30} GB left, {arguments.events} events may need more")
    server = None if arguments.url else _server(directory)
    valkey = EmbeddedValkey(directory)
    valkey.start()
    url = arguments.url or (server.url() if server else "")
    try:
        asyncio.run(filled(url, arguments.events))
        spool = directory / "spool"
        postmaster = _postmaster(server) if server is not None else None
        taken = asyncio.run(ask(url, valkey.url(), spool, arguments.rounds, arguments.seed, postmaster))
        print(table(taken))
        print(
            pages_table({name: [(one.wall_ms, one.cpu_ms) for one in times] for name, times in taken.items()})
        )
        print("load average", *(f"{load:.1f}" for load in os.getloadavg()))
    finally:
        valkey.stop()
        if server is not None:
            server.stop()
        if arguments.data is None:
            shutil.rmtree(directory, ignore_errors=True)


def _server(directory: Path) -> EmbeddedPostgres:
    server = EmbeddedPostgres(directory)
    server.start()
    server.ensure_database()
    asyncio.run(_configure(server.url()))
    server.stop()
    server.start()
    return server


def _postmaster(server: EmbeddedPostgres) -> int:
    return int((server.home / "data" / "postmaster.pid").read_text().splitlines()[0])


async def _configure(url: str) -> None:
    connection = await asyncpg.connect(url)
    for name, value in SETTINGS.items():
        await connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
    await connection.close()


_SIZES = """
SELECT coalesce(parent.relname, c.relname), sum(c.reltuples)::bigint, pg_size_pretty(sum(pg_total_relation_size(c.oid)))
FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid LEFT JOIN pg_class parent ON parent.oid = i.inhparent
WHERE c.relkind = 'r' AND (c.relname ~ '^(usage_event|rollup|slo|latency)_')
GROUP BY 1 ORDER BY 1
"""


if __name__ == "__main__":
    main()
