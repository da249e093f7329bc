"""CPU per request: the gateway with every check on, against the barest relay of the same stream, in one run.

    python -m tests.bench.gateway_relay [--requests 200] [--concurrency 16] [--rounds 5]

Rounds alternate between the two, on the same upstream and client. Prints the CPU milliseconds that each
relaying process spent per request (its own, without Postgres and Valkey, which are printed beside it), the
median over the rounds, and the ratio. The target is 1.5 for the stream of 64 chunks.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import aiohttp
import asyncpg
import psutil

from gateway.local.postgres import EmbeddedPostgres
from gateway.local.valkey import EmbeddedValkey
from gateway.migrate import migrate
from gateway.pool.process import free_port

MODEL = "bench-model"
PROMPT = "x" * 2000
PEPPER = "pepper-of-the-benchmark-0123456789"


@contextmanager
def process(
    *arguments: str, environment: dict[str, str] | None = None, output: IO[bytes] | None = None
) -> Iterator[psutil.Process]:
    variables = {**os.environ, **(environment or {})}
    child = subprocess.Popen([sys.executable, *arguments], env=variables, stdout=output, stderr=output)
    try:
        yield psutil.Process(child.pid)
    finally:
        child.terminate()
        child.wait(20)


async def wait_for(url: str, within_s: float = 60.0) -> None:
    async with aiohttp.ClientSession() as session, asyncio.timeout(within_s):
        while True:
            try:
                async with session.get(url) as answer:
                    if answer.status < 500:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.1)


def cpu_s(processes: list[psutil.Process]) -> float:
    return sum(sum(child.cpu_times()[:2]) for child in processes)


async def load(url: str, key: str, streamed: bool, requests: int, concurrency: int) -> float:
    """Wall seconds; every answer is read to its end."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 64}
    body |= {"stream": True} if streamed else {}
    headers = {"authorization": f"Bearer {key}"}
    left = iter(range(requests))
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

        async def worker() -> None:
            for _ in left:
                async with session.post(f"{url}/v1/chat/completions", json=body) as answer:
                    raw = await answer.read()
                    assert answer.status == 200, raw[:300]
                    assert not streamed or raw.endswith(b"data: [DONE]\n\n")

        began = time.perf_counter()
        await asyncio.gather(*(worker() for _ in range(concurrency)))
        return time.perf_counter() - began


async def configure(url: str, admin_key: str, database_url: str, upstream_url: str) -> str:
    headers = {"authorization": f"Bearer {admin_key}"}
    async with aiohttp.ClientSession(f"{url}/v1/organization/", headers=headers) as admin:

        async def make(path: str, body: Any) -> Any:
            async with admin.post(path, json=body) as answer:
                assert answer.status == 200, await answer.text()
                return await answer.json()

        pool = await make("pools", {"name": "bench", "spec": {"model": "m", "served_names": ["bench"]}})
        prices = {f"{kind}_nanousd_per_token": "100" for kind in ("input", "cached_input", "output")}
        await make("prices", {"sku": "bench", **prices})
        await make("routes", {"served_model": MODEL, "pool_id": pool["id"], "sku": "bench"})
        project = await make("projects", {"name": "bench"})
        limits = {"requests_per_min": 10**6, "requests_burst": 10**6, "tokens_per_min": 10**9,
                  "concurrent_requests": 1000}  # fmt: skip
        await make(f"projects/{project['id']}/limits", limits)
        budget = {"project_id": project["id"], "period": "monthly", "limit_nanousd": 10**15}
        await make("budgets", budget)
        key = await make(f"projects/{project['id']}/api_keys", {"name": "bench"})
    connection = await asyncpg.connect(database_url)
    await connection.execute(
        "INSERT INTO replica (id, pool_id, node, state, url, epoch) VALUES ('r', $1, 'n', 'ready', $2, 'e')",
        pool["id"],
        upstream_url,
    )
    await connection.close()
    await asyncio.sleep(2.5)  # the revision feed
    return str(key["value"])


async def another_tenant(url: str, admin_key: str) -> str:
    """The key of a project that may use the same route."""
    headers = {"authorization": f"Bearer {admin_key}"}
    async with aiohttp.ClientSession(f"{url}/v1/organization/", headers=headers) as admin:
        async with admin.post("projects", json={"name": "another"}) as answer:
            project = await answer.json()
        path = f"projects/{project['id']}/api_keys"
        async with admin.post(path, json={"name": "another"}) as answer:
            return str((await answer.json())["value"])


def bootstrap(environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _BOOTSTRAP],
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


async def measure(options: argparse.Namespace, directory: Path, stack: ExitStack) -> None:
    postgres, valkey = EmbeddedPostgres(directory), EmbeddedValkey(directory)
    postgres.start()
    stack.callback(postgres.stop)
    valkey.start()
    stack.callback(valkey.stop)
    database_url = postgres.url("postgres")
    await migrate(database_url)
    ports = [free_port() for _ in range(3)]
    upstream_url, bare_url, gateway_url = (f"http://127.0.0.1:{port}" for port in ports)
    stack.enter_context(process("-m", "tests.bench.relay", "upstream", str(ports[0])))
    bare = stack.enter_context(process("-m", "tests.bench.relay", "bare", str(ports[1]), upstream_url))
    environment = {
        "DATABASE_URL": database_url,
        "REDIS_URL": valkey.url(),
        "TOLLWAY_SERVER__PORT": str(ports[2]),
        "TOLLWAY_SERVER__LOG_LEVEL": options.log_level,
        "TOLLWAY_SECURITY__KEY_PEPPER": PEPPER,
        "TOLLWAY_UPSTREAM__INTERNAL_KEY": "internal",
        "TOLLWAY_LEDGER__SPOOL_DIR": str(directory / "spool"),
    }
    admin_key = bootstrap(environment)
    gateway = stack.enter_context(process("-c", SERVE, environment=environment))
    await wait_for(f"{gateway_url}/readyz")
    key = await configure(gateway_url, admin_key, database_url, upstream_url)
    helpers = [p for p in psutil.process_iter() if _is_helper(p, directory)]
    for streamed in (True, False):
        await compare(options, streamed, key, (bare_url, bare), (gateway_url, gateway), helpers)


async def compare(
    options: argparse.Namespace,
    streamed: bool,
    key: str,
    bare: tuple[str, psutil.Process],
    gateway: tuple[str, psutil.Process],
    helpers: list[psutil.Process],
) -> None:
    requests = options.requests if streamed else options.requests * 4
    for url in (bare[0], gateway[0]):
        await load(url, key, streamed, options.concurrency * 4, options.concurrency)
    spent: dict[str, list[float]] = {"bare": [], "gateway": [], "postgres+valkey": []}
    for _ in range(options.rounds):
        for name, (url, relay) in (("bare", bare), ("gateway", gateway)):
            before, helped = cpu_s([relay]), cpu_s(helpers)
            await load(url, key, streamed, requests, options.concurrency)
            spent[name].append((cpu_s([relay]) - before) / requests * 1000)
            if name == "gateway":
                spent["postgres+valkey"].append((cpu_s(helpers) - helped) / requests * 1000)
    print(f"{'stream of 64 chunks' if streamed else 'short JSON'}, CPU ms per request:")
    for name, values in spent.items():
        low, middle, high = min(values), statistics.median(values), max(values)
        print(f"  {name:16} {middle:6.2f}   ({low:.2f} to {high:.2f} over {len(values)} rounds)")
    ratios = [ours / theirs for ours, theirs in zip(spent["gateway"], spent["bare"], strict=True)]
    print(f"  ratio            {statistics.median(ratios):6.2f}   ({min(ratios):.2f} to {max(ratios):.2f})")


_BOOTSTRAP = (
    "import asyncio; from gateway.serving import bootstrap_admin; from gateway.settings import Settings;"
    "print(asyncio.run(bootstrap_admin(Settings(), 'bench')))"
)
SERVE = (
    "from gateway.obs.logging import configure_logging; from gateway.serving import serve_gateway;"
    "from gateway.settings import Settings; s = Settings(); configure_logging(s.server.log_level);"
    "serve_gateway(s)"
)


def _is_helper(candidate: psutil.Process, directory: Path) -> bool:
    try:
        return str(directory) in " ".join(candidate.cmdline()) or any(
            str(directory) in " ".join(parent.cmdline()) for parent in candidate.parents()
        )
    except psutil.Error:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--log-level", default="info")
    with tempfile.TemporaryDirectory(prefix="tollway-bench-") as name, ExitStack() as stack:
        directory = Path(name)
        directory.chmod(0o711)
        asyncio.run(measure(parser.parse_args(), directory, stack))


if __name__ == "__main__":
    main()
