"""The feed: one look for many, changes with their tenants, and honesty about what it does not know."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from gateway.db import Database, ReadSession
from gateway.live.feed import FORGOTTEN_S, INTERVAL_S, KEPT, Change, LiveFeed
from tests.gateway.tenancy.support import RealStartClock

ROLLUP = (
    "INSERT INTO rollup_minute VALUES (date_trunc('minute', now()), $1, 'k', 'm', 'p', 'e', 'c', 'ok',"
    " 1, 0, 0, 0, 0, 0, 0, 0, 0)"
    " ON CONFLICT (bucket, tenant_id, key_id, served_model, pool_id, endpoint, request_class, status)"
    " DO UPDATE SET requests = rollup_minute.requests + 1"
)
ALERT = (
    "INSERT INTO alert_record (id, type, tenant_id, payload, occurred_at) VALUES ($1, 't', $2, '{}', now())"
)


class Counting(Database):
    reads = 0

    @asynccontextmanager
    async def read(self) -> AsyncIterator[ReadSession]:
        self.reads += 1
        async with super().read() as session:
            yield session


class Watch:
    def __init__(self, url: str) -> None:
        self.url, self.clock = url, RealStartClock()
        self.database = Counting(url, name="test-live", pool_size=2)
        self.feed = LiveFeed(self.database, self.clock, "run_1")

    async def sql(self, statement: str, *values: Any) -> None:
        connection = await asyncpg.connect(self.url)
        await connection.execute(statement, *values)
        await connection.close()

    async def look(self) -> Mapping[str, frozenset[str] | None]:
        """What has changed since the look before, by topic."""
        before = self.feed.newest
        self.clock.advance(INTERVAL_S)
        await self.feed.look()
        changes = self.feed.since(before)
        assert changes is not None
        return {change.topic: change.tenants for change in changes}


@pytest.fixture
async def watch(database_url: str) -> AsyncIterator[Watch]:
    found = Watch(database_url)
    await found.feed.look()
    yield found
    await found.database.close()


async def test_changes_say_what_and_whom(watch: Watch) -> None:
    assert await watch.look() == {}
    await watch.sql(ROLLUP, "proj_a")
    await watch.sql(ROLLUP, "proj_b")
    assert await watch.look() == {"usage": frozenset({"proj_a", "proj_b"})}
    await watch.sql(ROLLUP, "proj_b")
    await watch.sql(ALERT, "alert_1", "proj_a")
    assert await watch.look() == {"usage": frozenset({"proj_b"}), "alerts": frozenset({"proj_a"})}
    await watch.sql(ALERT, "alert_2", "proj_a")
    await watch.sql(ALERT, "alert_3", None)
    assert await watch.look() == {"alerts": None}, "the organisation's too"
    await watch.sql("INSERT INTO pool (id, name, spec) VALUES ('pool_1', 'p', '{}')")
    await watch.sql("INSERT INTO replica (id, pool_id, node) VALUES ('replica_1', 'pool_1', 'n')")
    await watch.sql(
        "INSERT INTO audit_log (id, actor_kind, actor_id, action, resource_kind, resource_id, tenant_id)"
        " VALUES (gen_random_uuid(), 'system', 's', 'a', 'r', 'i', 'proj_c')"
    )
    assert await watch.look() == {"pools": None, "audit": frozenset({"proj_c"})}
    assert await watch.look() == {}


async def test_many_who_watch_look_once(watch: Watch) -> None:
    watch.clock.advance(INTERVAL_S)
    before = watch.database.reads
    await asyncio.gather(*(watch.feed.look() for _ in range(50)))
    assert watch.database.reads == before + 1


async def test_what_is_not_known_any_more_is_said(watch: Watch) -> None:
    start = watch.feed.newest
    await watch.sql(ROLLUP, "proj_a")
    await watch.look()
    assert watch.feed.since(watch.feed.newest) == []
    assert watch.feed.since(watch.feed.newest + 1) is None, "a number of the future is another run's"
    assert len(watch.feed.since(start) or ()) == 1
    watch.clock.advance(FORGOTTEN_S + INTERVAL_S)
    await watch.feed.look()
    assert watch.feed.since(start) is None, "nobody looked for a while"
    assert watch.feed.since(watch.feed.newest) == []


async def test_only_so_many_are_kept(watch: Watch) -> None:
    start = watch.feed.newest
    for number in range(KEPT + 1):
        watch.feed._number += 1
        watch.feed._changes.append(Change(start + 1 + number, "usage"))
    assert watch.feed.since(start) is None
    assert len(watch.feed.since(start + 1) or ()) == KEPT
