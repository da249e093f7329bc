"""Actions on one replica when something goes wrong between its steps."""

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text

from gateway.clock import SystemClock
from gateway.db import Database
from gateway.ids import PoolId
from gateway.obs.metrics import Metrics
from gateway.pool.actor import Actor
from gateway.pool.launcher import Assignment, Running
from gateway.pool.local import LocalLauncher
from gateway.pool.models import Pool
from gateway.pool.probe import Probe
from gateway.pool.repository import Lease, LeaseLost, PoolRepository
from gateway.pool.spec import EngineSpec
from gateway.pool.views import Act, Action, PoolView, ReplicaView
from tests.gateway.pool.conftest import stub_spec

POOL = PoolView(PoolId("pool_1"), "stub", stub_spec(), generation=1, wanted=True)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, name="test")
    async with database.write() as session:
        session.add(Pool(id=POOL.id, name=POOL.name, spec=POOL.spec.model_dump(mode="json")))
    yield database
    await database.close()


def _actor(database: Database, launcher: LocalLauncher, probe: Probe) -> Actor:
    launchers = {"tollway": launcher}
    return Actor(
        database, launchers, probe, clock=SystemClock(), metrics=Metrics(), journal_dir=lambda _: None
    )


async def _created(database: Database, actor: Actor) -> tuple[Lease, ReplicaView]:
    async with database.write() as session:
        lease = await PoolRepository().acquire(session, "node", "owner", lambda _: False)
    assert lease is not None
    await actor.perform(lease, Action(Act.CREATE, POOL.id), POOL, [])
    async with database.read() as session:
        (replica,) = await PoolRepository().replicas(session, "node")
    return lease, replica


async def test_an_engine_started_while_the_lease_was_lost_is_ended_again(
    database: Database, launcher: LocalLauncher, probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    actor = _actor(database, launcher, probe)
    lease, replica = await _created(database, actor)
    started: list[Running] = []
    launch = launcher.launch

    async def launch_slowly(
        replica_id: object, pool: str, spec: EngineSpec, assignment: Assignment
    ) -> Running:
        started.append(await launch(replica.id, pool, spec, assignment))
        async with database.write() as session:  # meanwhile somebody else took the node
            await session.execute(
                text("UPDATE supervisor_lease SET owner = 'other', generation = generation + 1")
            )
        return started[0]

    monkeypatch.setattr(launcher, "launch", launch_slowly)
    with pytest.raises(LeaseLost):
        await actor.perform(lease, Action(Act.LAUNCH, POOL.id, replica.id), POOL, [replica])
    assert len(started) == 1
    assert not (await launcher.observe(started[0])).alive


async def test_nothing_starts_without_the_lease(
    database: Database, launcher: LocalLauncher, probe: Probe
) -> None:
    actor = _actor(database, launcher, probe)
    lease, replica = await _created(database, actor)
    async with database.write() as session:
        await session.execute(text("UPDATE supervisor_lease SET generation = generation + 1"))
    with pytest.raises(LeaseLost):
        await actor.perform(lease, Action(Act.LAUNCH, POOL.id, replica.id), POOL, [replica])
    assert await launcher.strays([]) == ()
