"""Routing's SQL: what is written is what is read, once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from decimal import Decimal

import asyncpg
import pytest

from gateway.db import Database
from gateway.ids import PoolId, RouteId, TenantId
from gateway.routing.repository import COMPONENTS, RoutingRepository
from gateway.routing.target import RouteRow

START = datetime(2026, 1, 1, tzinfo=UTC)
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
        assert await repository.priced_components(session, "sku") == set(COMPONENTS)
        assert await repository.priced_components(session, "other") == set()


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
        assert (read.pools[PoolId("p")].engine_kind, read.pools[PoolId("p")].policy) == (
            "vllm",
            "least_loaded",
        )
        assert await repository.tenants(session) == ["t"]
        assert len(await repository.routes(session, None, 1)) == 1
    async with database.write() as session:
        assert await repository.delete_route(session, RouteId("route_a_t")) == route("a", "t")
        assert await repository.delete_route(session, RouteId("route_a_t")) is None
