"""Names are led from one pool to another and back, under load, and only to engines that are ready."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.fakes.engine import FakeEngine
from tests.harness import SERVED, Gateway

OTHER = "other-name"
CALLERS = 8


@pytest.fixture
async def blue_green() -> AsyncIterator[tuple[FakeEngine, FakeEngine]]:
    async with FakeEngine() as blue, FakeEngine() as green:
        yield blue, green


async def pools(gateway: Gateway, engines: tuple[FakeEngine, FakeEngine]) -> tuple[str, str]:
    blue, green = [
        await gateway.pool(one, name=name) for one, name in zip(engines, ("blue", "green"), strict=True)
    ]
    await gateway.route(blue)
    return blue, green


async def moved(gateway: Gateway, here: str, there: str, served: str | None = None) -> set[str]:
    body = {"to_pool_id": there} | ({"served_model": served} if served is not None else {})
    routes = (await gateway.admin("POST", f"/pools/{here}/switch", body))["data"]
    assert {route["pool_id"] for route in routes} == {there}
    return {route["served_model"] for route in routes}


async def refused(gateway: Gateway, here: str, body: dict[str, Any], status: int) -> str:
    answer = await gateway.admin("POST", f"/pools/{here}/switch", body, status)
    return str(answer["error"]["message"])


async def test_a_name_is_switched_and_back_under_load(
    gateway: Gateway, blue_green: tuple[FakeEngine, FakeEngine]
) -> None:
    blue, green = await pools(gateway, blue_green)
    tenant = await gateway.tenant()
    await gateway.refresh()
    stopping = asyncio.Event()
    answers: list[str | None] = []

    async def caller() -> None:
        client = gateway.client(tenant)
        while not stopping.is_set():
            stream = await client.chat.completions.create(
                model=SERVED, messages=[{"role": "user", "content": "hi"}], stream=True
            )
            answers.append([chunk async for chunk in stream if chunk.choices][-1].choices[0].finish_reason)

    async with asyncio.timeout(300), asyncio.TaskGroup() as load:
        for _ in range(CALLERS):
            load.create_task(caller())
        for here, there, engine in ((blue, green, 1), (green, blue, 0), (blue, green, 1)):
            assert await moved(gateway, here, there) == {SERVED}
            await gateway.refresh()
            new, old = blue_green[engine], blue_green[1 - engine]
            told, taken = len(old.requests), len(new.requests)
            while len(new.requests) < taken + 40:  # noqa: ASYNC110  # an engine has no event
                await asyncio.sleep(0.01)
            assert len(old.requests) - told <= CALLERS, "those that were on their way"
        stopping.set()
    assert len(answers) > 100
    assert set(answers) <= {"stop", "length"}


async def test_one_name_or_all_of_them(gateway: Gateway, blue_green: tuple[FakeEngine, FakeEngine]) -> None:
    blue, green = await pools(gateway, blue_green)
    await gateway.route(blue, served=OTHER)
    await gateway.route(blue, tenant=await gateway.tenant())
    assert await moved(gateway, blue, green, OTHER) == {OTHER}
    assert await moved(gateway, blue, green) == {SERVED}
    rows = await gateway.sql("SELECT details::text FROM audit_log WHERE action = 'route.updated'")
    assert len(rows) == 3, "each route's change is in the log"
    assert await moved(gateway, green, blue) == {SERVED, OTHER}, "and back"


async def test_it_is_all_or_nothing_and_only_to_a_pool_that_is_ready(
    gateway: Gateway, blue_green: tuple[FakeEngine, FakeEngine]
) -> None:
    blue, green = await pools(gateway, blue_green)
    assert "same pool" in await refused(gateway, blue, {"to_pool_id": blue}, 400)
    assert "no such pool" in await refused(gateway, blue, {"to_pool_id": "pool_none"}, 400)
    assert "No such pool" in await refused(gateway, "pool_none", {"to_pool_id": green}, 404)
    wrong = {"to_pool_id": green, "served_model": "nobodys"}
    assert "No such name" in await refused(gateway, blue, wrong, 409)
    there = {"to_pool_id": green}
    await gateway.sql("UPDATE replica SET state = 'starting' WHERE pool_id = $1", green)
    assert "0 of 1 replicas" in await refused(gateway, blue, there, 409)
    await gateway.sql("UPDATE replica SET state = 'ready' WHERE pool_id = $1", green)
    await gateway.sql("UPDATE pool SET generation = 2 WHERE id = $1", green)
    assert "0 of 1 replicas" in await refused(gateway, blue, there, 409), "they are to be replaced"
    await gateway.sql("UPDATE pool SET generation = 1, desired_state = 'stopped' WHERE id = $1", green)
    assert "not ready" in await refused(gateway, blue, there, 409)
    await gateway.sql("UPDATE pool SET desired_state = 'running' WHERE id = $1", green)
    tenant = await gateway.tenant()
    await gateway.sql("UPDATE pool SET reserved_tenants = $2 WHERE id = $1", green, [tenant.id])
    assert "reserved" in await refused(gateway, blue, there, 409)
    [route] = (await gateway.admin("GET", "/routes"))["data"]
    assert route["pool_id"] == blue
    await gateway.sql("UPDATE pool SET reserved_tenants = $2 WHERE id = $1", blue, [tenant.id])
    assert await moved(gateway, blue, green) == {SERVED}, "to the same people"
