"""(tenant, served name) → Target on real tables: whose route wins, who sees what, which price holds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from gateway.db import Database
from gateway.ids import TenantId
from gateway.routing.catalogue import Catalogue

START = datetime(2026, 6, 1, tzinfo=UTC)
MINE, OTHER = TenantId("mine"), TenantId("other")


@dataclass
class HandClock:
    at: datetime = field(default=START)

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()


@pytest.fixture
async def sql(database_url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(database_url)
    for name in (MINE, OTHER):
        await connection.execute("INSERT INTO tenant (id, name) VALUES ($1, $1)", name)
    for name, reserved in (("open", []), ("dedicated", [OTHER]), ("second", [])):
        spec = f'{{"kind": "tollway", "served_names": ["up-{name}"], "model": "m"}}'
        await connection.execute(
            "INSERT INTO pool (id, name, spec, reserved_tenants) VALUES ($1, $1, $2, $3)",
            name,
            spec,
            reserved,
        )
    await price(connection, "sku", START - timedelta(days=1), 1)
    yield connection
    await connection.close()


@pytest.fixture
async def catalogue(database_url: str, sql: Any) -> AsyncIterator[Catalogue]:
    database = Database(database_url, name="test", pool_size=1)
    yield Catalogue(database, HandClock())
    await database.close()


async def price(connection: Any, sku: str, valid_from: datetime, nanousd: int) -> None:
    for component in ("input", "cached_input", "output"):
        await connection.execute(
            "INSERT INTO price (sku, component, valid_from, nanousd_per_token) VALUES ($1, $2, $3, $4)",
            sku, component, valid_from, nanousd,
        )  # fmt: skip


async def route(connection: Any, name: str, pool: str, tenant: str | None = None) -> None:
    await connection.execute(
        "INSERT INTO route (id, tenant_id, served_model, pool_id, sku) VALUES ($1, $2, $3, $4, 'sku')",
        f"{name}-{pool}-{tenant}", tenant, name, pool,
    )  # fmt: skip


async def test_a_tenants_own_route_wins(catalogue: Catalogue, sql: Any) -> None:
    await route(sql, "m", "open")
    await route(sql, "m", "second", MINE)
    await catalogue.load()
    mine, others = catalogue.resolve(MINE, "m"), catalogue.resolve(OTHER, "m")
    assert mine is not None
    assert others is not None
    assert (mine.pool_id, mine.upstream_model) == ("second", "up-second")
    assert others.pool_id == "open"
    assert [target.served_model for target in catalogue.names(MINE)] == ["m"]


async def test_reserved_pools_are_nobody_elses(catalogue: Catalogue, sql: Any) -> None:
    await route(sql, "m", "dedicated")
    await catalogue.load()
    assert catalogue.resolve(MINE, "m") is None
    assert catalogue.names(MINE) == []
    assert catalogue.resolve(OTHER, "m") is not None


@pytest.mark.parametrize(("mode", "visible"), [("allow_list", ["a"]), ("deny_list", ["b"])])
async def test_permissions(catalogue: Catalogue, sql: Any, mode: str, visible: list[str]) -> None:
    await route(sql, "a", "open")
    await route(sql, "b", "open")
    await sql.execute(
        "INSERT INTO model_permission (tenant_id, mode, model_ids) VALUES ($1, $2, '{a}')", MINE, mode
    )
    await catalogue.load()
    assert [target.served_model for target in catalogue.names(MINE)] == visible
    assert [target.served_model for target in catalogue.names(OTHER)] == ["a", "b"]


async def test_the_price_of_the_instant(catalogue: Catalogue, sql: Any) -> None:
    await route(sql, "m", "open")
    await price(sql, "sku", START + timedelta(hours=1), 2)
    await catalogue.load()
    seen = []
    clock = catalogue.clock
    assert isinstance(clock, HandClock)
    for minutes in (0, 59, 60, 61, 30):
        clock.at = START + timedelta(minutes=minutes)
        target = catalogue.resolve(MINE, "m")
        assert target is not None
        seen.append(int(target.prices.output_nanousd))
    assert seen == [1, 1, 2, 2, 1]


async def test_unpublished_and_stopped_are_not_there(catalogue: Catalogue, sql: Any) -> None:
    await route(sql, "m", "open")
    await sql.execute("UPDATE route SET published = false")
    for name, state in (("r1", "ready"), ("r2", "draining")):
        await sql.execute(
            "INSERT INTO replica (id, pool_id, node, state, url) VALUES ($1, 'open', 'n', $2, 'http://e/')",
            name,
            state,
        )
    assert not catalogue.is_loaded
    await catalogue.load()
    assert catalogue.is_loaded
    assert catalogue.resolve(MINE, "m") is None
    assert [(row.id, row.url) for row in catalogue.replicas] == [("r1", "http://e")]


async def test_a_version_without_batch_prices_replaces_those_of_an_older_one(
    catalogue: Catalogue, sql: Any
) -> None:
    await route(sql, "m", "open")
    for name in ("batch_input", "batch_cached_input", "batch_output"):
        await sql.execute(
            "INSERT INTO price (sku, component, valid_from, nanousd_per_token) VALUES ('sku', $1, $2, 9)",
            name,
            START,
        )
    await price(sql, "sku", START + timedelta(hours=1), 2)
    await catalogue.load()
    clock = catalogue.clock
    assert isinstance(clock, HandClock)
    seen = []
    for hours in (-1, 0, 1):
        clock.at = START + timedelta(hours=hours)
        target = catalogue.resolve(MINE, "m")
        assert target is not None
        seen.append([int(target.prices_for(name).output_nanousd) for name in ("interactive", "batch")])
    assert seen == [[1, 1], [1, 9], [2, 2]]
