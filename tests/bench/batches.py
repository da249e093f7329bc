"""A large batch: how long its lines take, and the most memory that the gateway that worked on it held.

    python -m tests.bench.batches [lines …]

Memory must not grow with the lines. Each batch is worked on by a gateway in a process of its own; the engine is faked,
so the time is the gateway's, the database's and the fake's.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

import orjson
import psutil

from gateway.local.postgres import EmbeddedPostgres
from gateway.local.valkey import EmbeddedValkey
from gateway.migrate import migrate
from tests.fakes.engine import FakeEngine
from tests.harness import SERVED, Gateway, Tenant

SIZES = (5_000, 50_000)
URL = "/v1/embeddings"
POLL_S = 0.25


async def worked_on(gateway: Gateway, tenant: Tenant, cache_url: str, directory: Path, lines: int) -> str:
    """One row of the table."""
    body = {"model": SERVED, "input": "one two three " * 20}
    content = b"".join(
        orjson.dumps({"custom_id": f"id-{n}", "method": "POST", "url": URL, "body": body}) + b"\n"
        for n in range(lines)
    )
    client = gateway.client(tenant, timeout=300.0)
    file = await client.files.create(file=("lines.jsonl", content), purpose="batch")
    batch = await client.batches.create(input_file_id=file.id, endpoint=URL, completion_window="24h")
    environment = {
        **os.environ,
        "DATABASE_URL": gateway.database_url,
        "REDIS_URL": cache_url,
        "TOLLWAY_SECURITY__KEY_PEPPER": "pepper-of-the-tests-0123456789",
        "TOLLWAY_UPSTREAM__INTERNAL_KEY": "engine-key",
        "TOLLWAY_SERVER__FILES": gateway.settings.server.files,
        "TOLLWAY_SERVER__GATEWAY_ID": f"bench-{lines}",
        "TOLLWAY_LEDGER__SPOOL_DIR": str(directory / f"spool-{lines}"),
    }
    started = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.gateway.batches.victim", "60", env=environment
    )
    watched, first_mb, peak_mb = psutil.Process(process.pid), 0.0, 0.0
    while (row := await client.batches.retrieve(batch.id)).status not in ("completed", "failed"):
        await asyncio.sleep(POLL_S)
        rss_mb = watched.memory_info().rss / 2**20
        counts = row.request_counts
        if counts is not None and counts.completed and not first_mb:
            first_mb = rss_mb
        peak_mb = max(peak_mb, rss_mb)
    took_s, cpu = time.perf_counter() - started, watched.cpu_times()
    process.terminate()
    await process.wait()
    cpu_ms = (cpu.user + cpu.system) / lines * 1000
    return (
        f"{lines:7} lines  {len(content) / 2**20:6.1f} MB in  {row.status}  {took_s:7.1f} s  {cpu_ms:5.2f} ms CPU a line"
        f"  {first_mb:6.1f} MB after the first lines, {peak_mb:6.1f} MB at most"
    )


async def measure(directory: Path, sizes: list[int]) -> None:
    postgres, valkey = EmbeddedPostgres(directory), EmbeddedValkey(directory)
    try:
        postgres.start()
        valkey.start()
        database_url, cache_url = postgres.url("postgres"), valkey.url()
        await migrate(database_url)
        async with FakeEngine() as engine, Gateway(database_url, cache_url, directory / "gateway") as gateway:
            tenant = await gateway.serve(engine)
            await gateway.app.batches.stop()
            for lines in sizes:
                print(await worked_on(gateway, tenant, cache_url, directory, lines), flush=True)
                engine.requests.clear()
    finally:
        valkey.stop()
        postgres.stop()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="tollway-bench-") as name:
        directory = Path(name)
        directory.chmod(0o711)
        asyncio.run(measure(directory, [int(size) for size in sys.argv[1:]] or list(SIZES)))


if __name__ == "__main__":
    main()
