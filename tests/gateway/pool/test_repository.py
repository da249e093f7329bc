"""The lease and its fence: one supervisor per node, and a late one changes nothing."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from sqlalchemy import text

from gateway.db import Database
from gateway.ids import PoolId, ReplicaId
from gateway.pool.launcher import Assignment
from gateway.pool.models import Pool
from gateway.pool.process import ProcessMark
from gateway.pool.repository import Lease, LeaseLost, PoolRepository
from gateway.pool.views import PoolView
from tests.gateway.pool.conftest import stub_spec

REPOSITORY = PoolRepository()
POOL = PoolView(PoolId("pool_1"), "stub", stub_spec(), generation=1, wanted=True)
REPLICA = ReplicaId("rep_1")


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, name="test")
    async with database.write() as session:
        session.add(Pool(id=POOL.id, name=POOL.name, spec=POOL.spec.model_dump(mode="json")))
    yield database
    await database.close()


async def _acquire(database: Database, owner: str, dead: tuple[str, ...] = ()) -> Lease | None:
    async with database.write() as session:
        return await REPOSITORY.acquire(session, "node", owner, lambda other: other in dead)


async def _lease(database: Database, owner: str = "first", dead: tuple[str, ...] = ()) -> Lease:
    lease = await _acquire(database, owner, dead)
    assert lease is not None
    return lease


async def _expire(database: Database) -> None:
    async with database.write() as session:
        await session.execute(text("UPDATE supervisor_lease SET expires_at = now() - interval '1 s'"))


async def test_a_live_owner_keeps_the_node(database: Database) -> None:
    first = await _lease(database)
    assert await _acquire(database, "second") is None
    assert await _acquire(database, "first") == first


async def test_a_dead_owner_is_followed_at_once_and_an_expired_one_fenced(database: Database) -> None:
    first = await _lease(database)
    second = await _lease(database, "second", dead=("first",))
    assert second.generation > first.generation
    await _expire(database)
    third = await _lease(database, "third")
    assert third.generation > second.generation
    for late in (first, second, replace(third, owner="first")):
        with pytest.raises(LeaseLost):
            async with database.write() as session:
                await REPOSITORY.create(session, late, REPLICA, POOL)
    async with database.read() as session:
        assert await REPOSITORY.replicas(session, "node") == []


async def test_an_expired_lease_changes_nothing_even_before_anybody_else_came(database: Database) -> None:
    lease = await _lease(database)
    await _expire(database)
    with pytest.raises(LeaseLost):
        async with database.write() as session:
            await REPOSITORY.create(session, lease, REPLICA, POOL)
    renewed = await _lease(database)
    assert renewed.generation > lease.generation


async def test_a_released_lease_is_free(database: Database) -> None:
    lease = await _lease(database)
    async with database.write() as session:
        await REPOSITORY.release(session, lease)
    assert (await _lease(database, "second")).generation > lease.generation


async def test_a_launch_books_against_every_other_replica_of_the_node(database: Database) -> None:
    lease = await _lease(database)
    offered: list[list[Assignment]] = []

    def assign(taken: object, last: str | None) -> Assignment:
        offered.append(list(taken))  # type: ignore[call-overload]  # a sequence of assignments
        return Assignment(f"http://127.0.0.1:{9000 + len(offered)}", (len(offered),))

    for name in ("rep_1", "rep_2"):
        async with database.write() as session:
            await REPOSITORY.create(session, lease, ReplicaId(name), POOL)
    async with database.read() as session:
        replicas = await REPOSITORY.replicas(session, "node")
    for replica in replicas:
        async with database.write() as session:
            await REPOSITORY.book(session, lease, replica, assign, None)
    assert offered == [[], [Assignment("http://127.0.0.1:9001", (1,))]]


async def test_a_stopped_replica_comes_back_with_its_address(database: Database) -> None:
    lease = await _lease(database)
    mark = ProcessMark(4711, 42)
    async with database.write() as session:
        await REPOSITORY.create(session, lease, REPLICA, POOL)
    async with database.read() as session:
        (replica,) = await REPOSITORY.replicas(session, "node")
    async with database.write() as session:
        await REPOSITORY.book(session, lease, replica, lambda *_: Assignment("http://one", (0,)), "/journal")
        await REPOSITORY.launched(session, lease, REPLICA, mark)
        await REPOSITORY.publish(session, lease, REPLICA, "epoch")
    async with database.read() as session:
        (running,) = await REPOSITORY.replicas(session, "node")
    assert (running.state, running.mark, running.epoch, running.url) == ("ready", mark, "epoch", "http://one")
    async with database.write() as session:
        await REPOSITORY.move(session, lease, running, "stopped", "drained")
    async with database.read() as session:
        assert await REPOSITORY.replicas(session, "node") == []
    async with database.write() as session:
        await REPOSITORY.create(session, lease, ReplicaId("rep_other"), POOL)
    async with database.read() as session:
        (again,) = await REPOSITORY.replicas(session, "node")
    assert (again.id, again.state, again.url, again.mark) == (REPLICA, "starting", "http://one", None)


async def test_each_failure_counts_until_it_is_forgiven(database: Database) -> None:
    lease = await _lease(database)
    async with database.write() as session:
        await REPOSITORY.create(session, lease, REPLICA, POOL)
    for expected in (1, 2):
        async with database.read() as session:
            (replica,) = await REPOSITORY.replicas(session, "node")
        async with database.write() as session:
            await REPOSITORY.move(session, lease, replica, "failed", "exited with 1")
        async with database.read() as session:
            assert (await REPOSITORY.replicas(session, "node"))[0].restarts == expected
    async with database.write() as session:
        await REPOSITORY.forgive(session, lease, REPLICA)
    async with database.read() as session:
        assert (await REPOSITORY.replicas(session, "node"))[0].restarts == 0
        assert await session.scalar(text("SELECT last_error FROM replica")) == "exited with 1"
