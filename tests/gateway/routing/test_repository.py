"""Routing's SQL: what is written is what is read, once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import asyncpg
import pytest

from gateway.db import Database, ReadSession
from gateway.ids import PoolId, RouteId, TenantId
from gateway.pool.repository import PoolRepository
from gateway.pool.spec import EngineSpec
from gateway.pool.traffic import TrafficPolicy
from gateway.pool.views import PoolView
from gateway.routing.repository import COMPONENTS, RoutingRepository
from gateway.routing.target import PoolTimes, PriceFilter, RouteRow

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
PRICES = {"input": Decimal("1.5"), "cached_input": Decimal(0), "output": Decimal("0.000001")}


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    connection = await asyncpg.connect(database_url)
    await connection.execute("INSERT INTO tenant (id, name) VALUES ('t', 't')")
    await connection.execute("INSERT INTO pool (id, name, spec) VALUES ('p', 'p', '{\"kind\": \"vllm\"}')")
    await connection.close()
    opened = Database(database_url, name="test", pool_size=1)
    yield opened
    await opened.close()


def route(name: str, tenant: str | None = None) -> RouteRow:
    owner = TenantId(tenant) if tenant is not None else None
    return RouteRow(RouteId(f"route_{name}_{tenant}"), owner, name, PoolId("p"), "sku", 9, START)


async def test_prices_are_inserted_once(database: Database) -> None:
    repository = RoutingRepository()
    async with database.write() as session:
        rows = await repository.insert_prices(session, "sku", START, PRICES)
        assert {row.component: row.nanousd_per_token for row in rows} == PRICES
        assert await repository.insert_prices(session, "sku", START, PRICES) == []
        await repository.insert_prices(session, "sku", START + HOUR, PRICES)
        assert await repository.price_starts(session, "sku") == dict.fromkeys(COMPONENTS, START)
        assert await repository.price_starts(session, "other") == {}


async def test_the_history_says_until_when_a_price_held(database: Database) -> None:
    repository = RoutingRepository()
    async with database.write() as session:
        for number in range(3):
            await repository.insert_prices(session, "sku", START + number * HOUR, PRICES)
        await repository.insert_prices(session, "other", START, PRICES)
    async with database.read() as session:
        output = PriceFilter("sku", "output")
        rows = await repository.prices(session, output, None, 9)
        assert [(row.valid_from, row.valid_until) for row in rows] == [
            (START + 2 * HOUR, None),
            (START + HOUR, START + 2 * HOUR),
            (START, START + HOUR),
        ]
        assert await repository.prices(session, output, rows[0].id, 1) == rows[1:2]
        for at, expected in ((HOUR, 1), (2 * HOUR, 0), (HOUR - timedelta(microseconds=1), 2)):
            found = await repository.prices(session, replace(output, at=START + at), None, 9)
            assert found == [rows[expected]]
        assert len(await repository.prices(session, PriceFilter(), None, 99)) == 12


async def test_routes(database: Database) -> None:
    repository = RoutingRepository()
    async with database.write() as session:
        await repository.insert_prices(session, "sku", START, PRICES)
        assert await repository.insert_route(session, route("a"))
        assert await repository.insert_route(session, route("a", "t"))
        assert not await repository.insert_route(session, route("a"))
        assert await repository.has_pool(session, PoolId("p"))
        assert not await repository.has_pool(session, PoolId("q"))
        assert not await repository.has_tenant(session, TenantId("nobody"))
    async with database.read() as session:
        read = await repository.rows(session)
        assert sorted(read.routes, key=lambda row: row.id) == [route("a"), route("a", "t")]
        pool = read.pools[PoolId("p")]
        assert (pool.engine_kind, pool.strategy, pool.times) == ("vllm", "prefix", None)
        assert await repository.tenants(session) == ["t"]
        assert len(await repository.routes(session, None, 1)) == 1
    async with database.write() as session:
        await repository.set_route(session, replace(route("a"), published=False))
        hidden = await repository.route(session, RouteId("route_a_None"))
        assert hidden is not None
        assert not hidden.published
        assert await repository.route(session, RouteId("none")) is None
        assert [row.id for row in (await repository.rows(ReadSession(session))).routes] == ["route_a_t"]
        assert await repository.delete_route(session, RouteId("route_a_t")) == route("a", "t")
        assert await repository.delete_route(session, RouteId("route_a_t")) is None


async def test_a_pools_own_times(database: Database) -> None:
    traffic = TrafficPolicy(strategy="least_conn", first_token_timeout_s=2.5)  # type: ignore[arg-type]  # an alias
    spec = EngineSpec(model="m", served_names=("m",))
    async with database.write() as session:
        await PoolRepository().set_pool(session, PoolView(PoolId("p"), "p", spec, 1, True, traffic), ())
    async with database.read() as session:
        pool = (await RoutingRepository().rows(session)).pools[PoolId("p")]
    assert pool.strategy == "least_loaded"
    assert pool.times == PoolTimes(first_token_s=2.5)
