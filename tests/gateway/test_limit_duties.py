"""Limits on whole gateways: two share one, a killed one gives its slots back, and a day is a day for all of them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

import aiohttp
import asyncpg
import pytest

from tests.fakes.engine import FakeEngine
from tests.fakes.script import OVERLOADED, Refusal, Script
from tests.gateway.limits.support import advance
from tests.harness import SERVED, Gateway, Tenant
from tests.patience import PATIENT
from tests.ports import kept_port

CHAT = "/v1/chat/completions"
ASK: dict[str, Any] = {"model": SERVED, "messages": [{"role": "user", "content": "hi"}]}
LEASE_S = 60.0
PEPPER = "pepper-of-the-tests-0123456789"


@pytest.fixture
async def gateway(database_url: str, cache_url: str, tmp_path: Path) -> AsyncIterator[Gateway]:
    """Its books are not checked at the end: a gateway that is killed leaves holds, which are the worker's."""
    async with Gateway(database_url, cache_url, tmp_path) as running:
        yield running


@pytest.fixture
async def second(
    gateway: Gateway, database_url: str, cache_url: str, tmp_path: Path
) -> AsyncIterator[Gateway]:
    other = Gateway(database_url, cache_url, tmp_path, gateway_id="gw-2")
    other.admin_key = gateway.admin_key
    async with other:
        yield other


@asynccontextmanager
async def process_of(gateway: Gateway, directory: Path) -> AsyncIterator[tuple[Any, str]]:
    """A gateway as an operator starts it, beside one that is in this process; its process and address."""
    with kept_port() as port, kept_port() as metrics_port:
        async with _process(gateway, directory, port, metrics_port) as process:
            yield process, f"http://127.0.0.1:{port}"


@asynccontextmanager
async def _process(gateway: Gateway, directory: Path, port: int, metrics_port: int) -> AsyncIterator[Any]:
    """Once it is ready."""
    environ = os.environ | {
        **PATIENT,
        "DATABASE_URL": gateway.database_url,
        "REDIS_URL": gateway.settings.cache.url.get_secret_value(),
        "TOLLWAY_SECURITY__KEY_PEPPER": PEPPER,
        "TOLLWAY_UPSTREAM__INTERNAL_KEY": "engine-key",
        "TOLLWAY_LEDGER__SPOOL_DIR": str(directory / "spool"),
        "TOLLWAY_LIMITS__LEASE_TTL_S": str(LEASE_S),
        "TOLLWAY_SERVER__FILES": str(directory / "files"),
        "TOLLWAY_SERVER__GATEWAY_ID": "gw-process",
        "TOLLWAY_SERVER__PORT": str(port),
        "TOLLWAY_SERVER__METRICS_PORT": str(metrics_port),
    }
    command = (sys.executable, "-m", "gateway", "gateway")
    process = await asyncio.create_subprocess_exec(*command, env=environ, stdout=asyncio.subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        async with aiohttp.ClientSession() as client, asyncio.timeout(120):
            while not await _is_ready(client, url):  # noqa: ASYNC110  (another process)
                await asyncio.sleep(0.1)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _is_ready(client: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with client.get(f"{url}/readyz") as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


async def limited(gateways: Sequence[Gateway], engine: FakeEngine, **limits: int) -> Tenant:
    tenant = await gateways[0].serve(engine)
    await gateways[0].admin("POST", f"/projects/{tenant.id}/limits", limits)
    for one in gateways:
        await one.refresh()
    return tenant


async def ask(gateway: Gateway, tenant: Tenant) -> tuple[int, str | None]:
    answer = await gateway.request("POST", CHAT, ASK, tenant.key)
    return answer.status, None if answer.status == 200 else (await answer.json())["error"]["message"]


async def test_two_gateways_share_sixty_a_minute(
    gateway: Gateway, second: Gateway, engine: FakeEngine
) -> None:
    """Duty D24: 140 requests at once over two gateways: sixty and what the time brought, whoever was asked."""
    tenant = await limited([gateway, second], engine, requests_per_min=60, requests_burst=60)
    began = monotonic()
    answers = await asyncio.gather(*(ask((gateway, second)[number % 2], tenant) for number in range(140)))
    elapsed_s = monotonic() - began
    statuses = Counter(status for status, _ in answers)
    print(f"{statuses} in {elapsed_s:.1f} s")
    assert set(statuses) <= {200, 429}
    assert 60 <= statuses[200] <= 60 + elapsed_s + 1
    assert len(engine.requests) == statuses[200]
    for one in (gateway, second):
        left = await one.request("POST", CHAT, ASK, tenant.key)
        assert left.headers["x-ratelimit-limit-requests"] == "60"
        assert int(left.headers["x-ratelimit-remaining-requests"]) <= monotonic() - began + 1


async def test_a_days_requests_are_counted_together_and_outlive_a_gateway(
    gateway: Gateway, second: Gateway, engine: FakeEngine, tmp_path: Path
) -> None:
    """Requests per day: exactly so many, over two gateways and a third that is started afterwards."""
    pool_id = await gateway.pool(engine)
    await gateway.route(pool_id)
    for _ in range(2):  # again, should midnight come in between
        today = datetime.now(UTC).date()
        tenant = await gateway.tenant()
        await gateway.admin("POST", f"/projects/{tenant.id}/limits", {"requests_per_day": 5})
        for one in (gateway, second):
            await one.refresh()
        answers = [await ask((gateway, second)[number % 2], tenant) for number in range(8)]
        third = Gateway(gateway.database_url, gateway.settings.cache.url.get_secret_value(), tmp_path, "gw-3")
        third.admin_key = gateway.admin_key
        async with third:
            answers.append(await ask(third, tenant))
            refused = await third.request("POST", CHAT, ASK, tenant.key)
        if datetime.now(UTC).date() == today:
            break
    assert [status for status, _ in answers] == [200] * 5 + [429] * 4
    assert "per day" in str(answers[-1][1]).lower()
    until_midnight_s = 86_400
    assert 0 < int(refused.headers["retry-after"]) <= until_midnight_s
    usage = (await gateway.admin("GET", f"/projects/{tenant.id}/limits"))["data"]
    assert usage[0]["requests_per_day"] == 5


async def test_a_killed_gateways_slots_come_back(
    gateway: Gateway, engine: FakeEngine, cache_url: str, tmp_path: Path
) -> None:
    """Duty D27: kill -9 of a gateway with streams open: another one has its slots again once the lease is over."""
    tenant = await limited([gateway], engine, concurrent_requests=2)
    async with process_of(gateway, tmp_path) as (process, url), aiohttp.ClientSession() as client:
        engine.default = Script(hang_after=1)
        headers = {"authorization": f"Bearer {tenant.key}"}
        streams = [
            await client.post(url + CHAT, json=ASK | {"stream": True}, headers=headers) for _ in range(2)
        ]
        assert [stream.status for stream in streams] == [200, 200]
        engine.default = Script()
        status, why = await ask(gateway, tenant)
        assert status == 429
        assert "concurrent" in str(why).lower()
        process.send_signal(signal.SIGKILL)
        await process.wait()
        assert (await ask(gateway, tenant))[0] == 429
        await advance(cache_url, LEASE_S + 1)
        assert (await ask(gateway, tenant))[0] == 200
    both = await asyncio.gather(*(ask(gateway, tenant) for _ in range(2)))
    assert [status for status, _ in both] == [200, 200], "both are back"


async def test_nothing_is_taken_after_whatever_end(gateway: Gateway, engine: FakeEngine) -> None:
    """Duty D27: cancelled, timed out, failed, refused and complete: one slot serves them all, one after the other."""
    tenant = await limited([gateway], engine, concurrent_requests=1)
    for script, leaves in (
        (Script(), False),
        (Script(fail_after=1), False),
        (Script(die_after=1), False),
        (Script(hang_after=1), True),
    ):
        engine.script(script)
        answer = await gateway.request("POST", CHAT, ASK | {"stream": True}, tenant.key)
        assert answer.status == 200, script
        if leaves:
            answer.close()
        else:
            await answer.content.read()
        await until_open(gateway, 0)
    assert gateway.app.replicas.in_flight() == 0


async def test_whoever_refuses_behind_the_limits_gives_the_slot_back(
    gateway: Gateway, engine: FakeEngine
) -> None:
    """The engine, a spent budget, and a caller who leaves while the money is being reserved. There is one slot, and a
    day has as many requests as are answered."""
    tenant = await limited([gateway], engine, concurrent_requests=1, requests_per_day=3)
    for refusal, status in ((Refusal(400, "invalid_request_error"), 400), (OVERLOADED, 503)):
        engine.script(Script(refuse=refusal))
        assert (await ask(gateway, tenant))[0] == status
    budget = {"project_id": tenant.id, "period": "monthly", "limit_nanousd": 1}
    budget_id = (await gateway.admin("POST", "/budgets", budget))["id"]
    await gateway.refresh()
    assert (await ask(gateway, tenant))[0] == 429
    await gateway.admin("POST", f"/budgets/{budget_id}", {"limit_nanousd": 10**15})
    assert (await ask(gateway, tenant))[0] == 200
    somebody = await asyncpg.connect(gateway.database_url)
    try:
        async with somebody.transaction():
            await somebody.execute("SELECT * FROM budget_period FOR UPDATE")
            caller = asyncio.create_task(ask(gateway, tenant))
            await until_open(gateway, 1)
            caller.cancel()
            await asyncio.gather(caller, return_exceptions=True)
            await until_open(gateway, 0)
    finally:
        await somebody.close()
    assert [(await ask(gateway, tenant))[0] for _ in range(2)] == [200, 200]


async def until_open(gateway: Gateway, calls: int) -> None:
    async with asyncio.timeout(60):
        while gateway.app.metrics.registry.get_sample_value("tollway_limiter_open_calls") != calls:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
