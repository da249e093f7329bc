"""Degraded modes: one test per row of the table, each of which really stops what it is about, and starts it again.

A gateway that is killed: tests/e2e/test_gateway_death.py for what it held, test_limit_duties.py for its slots.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from gateway.local.postgres import EmbeddedPostgres
from gateway.local.valkey import EmbeddedValkey
from gateway.migrate import migrate
from tests.fakes.engine import FakeEngine
from tests.fakes.script import Script
from tests.harness import SERVED, Gateway

CHAT = "/v1/chat/completions"
ASK: dict[str, Any] = {"model": SERVED, "messages": [{"role": "user", "content": "one two three"}]}
PLENTY = 10**12


@pytest.fixture
async def postgres(server_directory: Path) -> AsyncIterator[EmbeddedPostgres]:
    """A server of this test's own, which it may stop."""
    directory = server_directory / "own"
    directory.mkdir(exist_ok=True)
    directory.chmod(0o711)
    server = EmbeddedPostgres(directory, durable=False)
    await asyncio.to_thread(server.start)
    connection = await asyncpg.connect(server.url("postgres"))
    await connection.execute("DROP DATABASE IF EXISTS tollway WITH (FORCE)")
    await connection.execute("CREATE DATABASE tollway")
    await connection.close()
    await migrate(server.url("tollway"))
    yield server
    await asyncio.to_thread(server.stop)


@pytest.fixture
async def valkey(tmp_path: Path) -> AsyncIterator[EmbeddedValkey]:
    server = EmbeddedValkey(tmp_path)
    await asyncio.to_thread(server.start)
    yield server
    await asyncio.to_thread(server.stop)


async def ask(gateway: Gateway, key: str) -> tuple[int, str | None, Any]:
    answer = await gateway.request("POST", CHAT, ASK, key)
    code = None if answer.status == 200 else (await answer.json())["error"]["code"]
    return answer.status, code, answer.headers


async def until(reached: Callable[[], Any], within_s: float = 60) -> None:
    async with asyncio.timeout(within_s):
        while not await reached():  # noqa: ASYNC110  (far away)
            await asyncio.sleep(0.05)


async def test_postgres_away_for_a_while(postgres: EmbeddedPostgres, cache_url: str, tmp_path: Path) -> None:
    """Duty C21: unlimited tenants go on, hard budgets are 503, nobody is 401, and the spool is settled afterwards."""
    settings = {"ledger": {"outage_grace_s": 600.0}}
    async with (
        FakeEngine() as engine,
        Gateway(postgres.url("tollway"), cache_url, tmp_path, **settings) as gateway,
    ):
        free = await gateway.serve(engine)
        bound = await gateway.tenant("bound")
        budget = {"project_id": bound.id, "period": "monthly", "limit_nanousd": PLENTY}
        await gateway.admin("POST", "/budgets", budget)
        await gateway.refresh()
        assert [(await ask(gateway, one.key))[0] for one in (free, bound)] == [200, 200]
        await gateway.events(2, 60)

        async def knows_the_budget() -> bool:
            """It looks each second: an outage finds what the last look found."""
            return (bound.id, None) in (gateway.app.ledger._outage._hard_scopes or ())

        await until(knows_the_budget)
        await asyncio.to_thread(postgres.stop)
        assert (await ask(gateway, bound.key))[:2] == (503, "server_is_overloaded")
        served = [(await ask(gateway, free.key))[0] for _ in range(3)]
        assert served == [200, 200, 200]
        stranger = "tw-abcdefgh-" + "A" * 43
        assert (await ask(gateway, stranger))[0] == 503, "who it is cannot be known: that is no verdict"
        for path, status in (("/healthz", 200), ("/readyz", 200)):
            assert (await gateway.request("GET", path)).status == status, (
                "no database makes it leave the service"
            )
        await asyncio.to_thread(postgres.start)

        async def is_back() -> bool:
            return (await ask(gateway, bound.key))[0] == 200

        await until(is_back)
        assert (await ask(gateway, stranger))[0] == 401
        # What was served meanwhile is settled too, once each.
        assert len(engine.requests) >= 6
        events = await gateway.events(len(engine.requests), 120)
        assert len({event["request_id"] for event in events}) == len(events)
        assert {event["status"] for event in events} == {"ok"}
        assert await gateway.sql("SELECT * FROM budget_period WHERE held_nanousd <> 0") == []


async def test_postgres_away_at_the_start(postgres: EmbeddedPostgres, cache_url: str, tmp_path: Path) -> None:
    """Duty C21: it waits, is alive and not ready, calls nobody unknown, and serves without a restart afterwards."""
    url = postgres.url("tollway")
    async with FakeEngine() as engine:
        async with Gateway(url, cache_url, tmp_path / "before") as earlier:
            tenant = await earlier.serve(engine)
        await asyncio.to_thread(postgres.stop)
        async with Gateway(url, cache_url, tmp_path, "gw-2").without_database() as gateway:
            assert (await gateway.request("GET", "/healthz")).status == 200
            assert (await gateway.request("GET", "/readyz")).status == 503
            status, _, headers = await ask(gateway, tenant.key)
            assert status == 503
            assert int(headers["retry-after"]) >= 1
            await asyncio.to_thread(postgres.start)

            async def serves() -> bool:
                return (await ask(gateway, tenant.key))[0] == 200

            await until(serves)
            assert (await gateway.request("GET", "/readyz")).status == 200


async def test_valkey_away(
    database_url: str, valkey: EmbeddedValkey, engine: FakeEngine, tmp_path: Path
) -> None:
    """Limits hold locally while the cache is stopped, by this gateway's share, said in a metric; then together again."""
    async with Gateway(database_url, valkey.url(), tmp_path) as gateway:
        tenant = await gateway.serve(engine)
        await gateway.admin(
            "POST", f"/projects/{tenant.id}/limits", {"requests_per_day": 1000, "concurrent_requests": 3}
        )
        await gateway.refresh()
        assert (await ask(gateway, tenant.key))[0] == 200
        local = gateway.app.metrics.limiter_local
        assert local._value.get() == 0
        await asyncio.to_thread(valkey.stop)
        assert (await ask(gateway, tenant.key))[0] == 200, "nobody is refused for it"
        assert local._value.get() == 1
        engine.default = Script(hang_after=1)
        streams = [await gateway.request("POST", CHAT, ASK | {"stream": True}, tenant.key) for _ in range(3)]
        assert [stream.status for stream in streams] == [200] * 3
        engine.default = Script()
        status, code, _ = await ask(gateway, tenant.key)
        assert (status, code) == (429, "rate_limit_exceeded"), "and nobody gets more for it"
        assert (await gateway.request("GET", "/readyz")).status == 200
        for stream in streams:
            stream.close()

        async def is_free() -> bool:
            return (await ask(gateway, tenant.key))[0] == 200

        await until(is_free)
        await asyncio.to_thread(valkey.start)

        async def is_shared() -> bool:
            assert (await ask(gateway, tenant.key))[0] == 200
            return bool(local._value.get() == 0)

        await until(is_shared)
        await gateway.events(within_s=60)


async def test_one_replica_away(gateway: Gateway, engine: FakeEngine) -> None:
    """Nobody notices but a stream's reader, who does not either: it goes on elsewhere, and is one event."""
    async with FakeEngine() as other:
        tenant = await gateway.serve(engine, other)
        engine.default = other.default = Script(token_delay_s=0.05)
        answer = await gateway.request("POST", CHAT, _long() | {"stream": True}, tenant.key)
        await answer.content.readuntil(b"\n\n")
        dying, living = (engine, other) if engine.running else (other, engine)
        await dying.stop()
        raw = await answer.content.read()
        assert raw.endswith(b"data: [DONE]\n\n")
        assert b'"error"' not in raw
        living.default = Script()
        assert [(await ask(gateway, tenant.key))[0] for _ in range(12)] == [200] * 12
        assert len(living.requests) >= 12
        await dying.start()  # with its journal, which the stream's bill has waited for
        events = await gateway.events(13, 120)
        assert {event["status"] for event in events} == {"ok"}


async def test_all_replicas_away(gateway: Gateway, engine: FakeEngine) -> None:
    """503 with a hint to retry, nothing held, nothing billed; and served again as soon as one is there."""
    tenant = await gateway.serve(engine)
    budget = {"project_id": tenant.id, "period": "monthly", "limit_nanousd": PLENTY}
    await gateway.admin("POST", "/budgets", budget)
    await gateway.refresh()
    await engine.stop()
    for _ in range(8):  # more than the breaker needs
        status, code, headers = await ask(gateway, tenant.key)
        assert (status, code) == (503, "server_is_overloaded")
        assert int(headers["retry-after"]) >= 1
    await gateway.events(within_s=60)
    assert (
        await gateway.sql("SELECT * FROM budget_period WHERE held_nanousd <> 0 OR spent_nanousd <> 0") == []
    )
    await engine.start()

    async def is_back() -> bool:
        return (await ask(gateway, tenant.key))[0] == 200

    await until(is_back)


def _long() -> dict[str, Any]:
    return {**ASK, "messages": [{"role": "user", "content": " ".join(str(number) for number in range(40))}]}
