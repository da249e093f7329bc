"""The sampler asks every replica that serves, and writes what they say, once per moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway.db import Database
from gateway.pool.sampler import Sampler, moment
from gateway.settings import UpstreamSettings
from gateway.upstream.client import UpstreamClient
from tests.fakes.clock import ManualClock
from tests.gateway.books import Books, books
from tests.patience import LONG_S

__all__ = ["books"]

NOW = datetime(2026, 11, 20, 12, 0, 17, tzinfo=UTC)
SAID = """vllm:num_requests_running{model_name="m"} 3
vllm:num_requests_waiting{model_name="m"} 31
vllm:kv_cache_usage_perc{model_name="m"} 0.97
vllm:num_preemptions_total{model_name="m"} 5
vllm:generation_tokens_total{model_name="m"} 1000
"""


@asynccontextmanager
async def engine(keys: list[str | None], text: str = SAID) -> AsyncIterator[str]:
    """An engine's metrics; `keys` keeps what it was shown."""

    async def metrics(request: web.Request) -> web.Response:
        keys.append(request.headers.get("authorization"))
        return web.Response(text=text)

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    async with TestServer(app) as server:
        yield str(server.make_url("")).rstrip("/")


async def add_replica(books: Books, name: str, url: str, kind: str = "tollway", state: str = "ready") -> None:
    await books.run(
        "INSERT INTO pool (id, name, spec) VALUES (:id, :id, jsonb_build_object('kind', CAST(:kind AS text)))",
        id=f"pool_{name}",
        kind=kind,
    )
    await books.run(
        "INSERT INTO replica (id, pool_id, node, state, url) VALUES (:id, :pool, 'node', :state, :url)",
        id=f"replica_{name}",
        pool=f"pool_{name}",
        state=state,
        url=url,
    )


async def test_every_replica_that_serves_is_sampled_once_per_moment(books: Books, database_url: str) -> None:
    keys: list[str | None] = []
    others: list[str | None] = []
    clock, database = ManualClock(NOW), Database(database_url, name="test-sampler", pool_size=2)
    client = UpstreamClient(UpstreamSettings(connect_timeout_s=LONG_S))
    await client.start()
    async with engine(keys) as ours, engine(others) as theirs, engine([], "nothing known 1\n") as odd:
        await add_replica(books, "ours", ours)
        await add_replica(books, "theirs", theirs, kind="external")
        await add_replica(books, "odd", odd)
        await add_replica(books, "gone", ours, state="failed")
        await add_replica(books, "silent", "http://127.0.0.1:9")
        sampler = Sampler(database, client, clock, "internal")
        assert await asyncio.gather(sampler.run_once(), sampler.run_once()) == [2, 2]
        rows = await books.rows(
            "SELECT at, replica_id, running, waiting, kv_usage, preemptions, tokens FROM replica_sample ORDER BY 2"
        )
        assert [tuple(row) for row in rows] == [
            (moment(NOW), "replica_ours", 3, 31, 0.97, 5, 1000),
            (moment(NOW), "replica_theirs", 3, 31, 0.97, 5, 1000),
        ]
        clock.advance(10)
        await sampler.run_once()
    assert await books.count("replica_sample") == 4
    assert set(keys) == {"Bearer internal"}
    assert set(others) == {None}, "an engine that somebody else runs never sees our key"
    await client.close()
    await database.close()


def test_moments_are_the_same_for_everybody() -> None:
    assert moment(NOW) == moment(NOW.replace(second=11)) == NOW.replace(second=10)
