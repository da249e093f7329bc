"""The revision feed on a real database, through a cable that can be cut."""

import asyncio

import pytest

from gateway.db import Database
from gateway.obs.metrics import Metrics
from gateway.tenancy import RevisionFeed
from gateway.tenancy.revision import FRESH_S
from tests.fakes.clock import ManualClock
from tests.fakes.network import cable_to
from tests.gateway.tenancy.support import World, world_on
from tests.patience import LONG_S


async def test_change_of_a_tenant_moves_the_tenancy_topic_only(database_url: str) -> None:
    async with world_on(database_url) as world:
        assert not world.feed.fresh
        assert world.feed.revision("tenancy") == -1
        assert await world.feed.poll()
        before = {topic: world.feed.revision(topic) for topic in ("tenancy", "routing", "budget")}
        await world.tenant()
        assert world.feed.revision("tenancy") == before["tenancy"]
        assert await world.feed.poll()
        assert world.feed.revision("tenancy") > before["tenancy"]
        assert world.feed.revision("routing") == before["routing"]


async def test_fresh_until_the_last_good_poll_is_too_old(database_url: str) -> None:
    async with world_on(database_url) as world:
        await world.feed.poll()
        world.clock.advance(FRESH_S)
        assert world.feed.fresh
        world.clock.advance(0.001)
        assert not world.feed.fresh


async def test_subscribers_hear_of_their_topics_once_per_change(database_url: str) -> None:
    heard: list[str] = []

    def hear(name: str):  # type: ignore[no-untyped-def]  # a callback maker
        async def on_change() -> None:
            heard.append(name)

        return on_change

    async with world_on(database_url) as world:
        world.feed.subscribe(("tenancy",), hear("tenancy"))
        world.feed.subscribe(("routing",), hear("routing"))
        await world.feed.poll()
        await world.feed.poll()
        assert sorted(heard) == ["routing", "tenancy"]
        await world.tenant()
        await world.feed.poll()
        await world.feed.poll()
        assert heard[2:] == ["tenancy"]


async def test_database_away_is_a_failed_poll_and_comes_back_by_itself(database_url: str) -> None:
    async with cable_to(database_url) as (cable, url), world_on(url) as world:
        assert await world.feed.poll()
        await cable.cut()
        assert not await world.feed.poll()
        world.clock.advance(FRESH_S + 1)
        assert not await world.feed.poll()
        assert world.feed.age_s == FRESH_S + 1
        assert "tollway_config_feed_fresh 0.0" in world.metrics.render().decode()
        await cable.join()
        assert await world.feed.poll()
        assert world.feed.fresh


async def test_silent_database_is_a_failed_poll_within_the_timeout(database_url: str) -> None:
    async with cable_to(database_url) as (cable, url), world_on(url) as world:
        assert await world.feed.poll()
        world.feed._timeout_s = 0.8
        cable.silence()
        async with asyncio.timeout(60):
            assert not await world.feed.poll()


async def test_subscriber_that_meets_an_outage_is_called_again(database_url: str) -> None:
    calls: list[int] = []

    async def on_change() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise ConnectionError

    async with world_on(database_url) as world:
        world.feed.subscribe(("tenancy",), on_change)
        assert not await world.feed.poll()
        assert not world.feed.fresh
        assert world.feed.revision("tenancy") == -1
        assert await world.feed.poll()
        assert len(calls) == 2


async def test_polls_by_itself_and_outlives_a_bug_of_a_subscriber(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gateway.clock import SystemClock

    monkeypatch.setattr("gateway.tenancy.revision.FRESH_S", LONG_S)  # by the machine's own clock here
    calls: list[int] = []

    async def on_change() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise ZeroDivisionError

    metrics = Metrics()
    async with world_on(database_url) as world:
        feed = RevisionFeed(world.database, SystemClock(), metrics, LONG_S)
        feed.subscribe(("tenancy",), on_change)
        await feed.start()
        await world.tenant()
        async with asyncio.timeout(LONG_S):
            while len(calls) < 3:  # noqa: ASYNC110  # it tells nobody
                await asyncio.sleep(0.1)
        await feed.stop()
        assert len(calls) >= 3
        assert feed.fresh
    assert 'tollway_unexpected_errors_total{edge="revision-feed"} 1.0' in metrics.render().decode()


def test_nothing_is_known_before_the_first_poll() -> None:
    world = World(Database("postgresql://nobody@127.0.0.1:1/none", name="test"), ManualClock())
    assert world.feed.age_s == float("inf")
    assert not world.feed.fresh
