"""Samples of real rows, and what is written for them: nothing where somebody else scales."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import text

from gateway.db import Database
from gateway.ids import PoolId, ReplicaId
from gateway.pool.launcher import Observed
from gateway.pool.models import Pool
from gateway.pool.nodes import states_of_node
from gateway.pool.probe import EngineLoad, EngineStatus
from gateway.pool.repository import Lease, LeaseLost, PoolRepository
from gateway.pool.scaler import Scaler, sampled
from gateway.pool.scaling import Sample
from gateway.pool.views import PoolView, ReplicaState, ReplicaView, Seen, Stage
from tests.fakes.clock import ManualClock
from tests.gateway.pool.conftest import stub_spec

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SETTLED = Stage("settled")


def a_pool(**spec: Any) -> PoolView:
    return PoolView(
        PoolId("pool_1"), "stub", stub_spec(**({"scaling": {"up_after_s": 1}} | spec)), 1, wanted=True
    )


def replica(name: str, state: ReplicaState = "ready") -> ReplicaView:
    return ReplicaView(
        ReplicaId(name), PoolId("pool_1"), state, f"http://{name}", (), None, "e", 1, 0, None, NOW
    )  # fmt: skip


def saying(running: int, waiting: int, delay_s: float | None = None) -> Seen:
    return Seen(Observed(alive=True), EngineStatus("ready", "e", EngineLoad(running, waiting, delay_s)))


class Bench:
    def __init__(self, database: Database, lease: Lease) -> None:
        self.database, self.lease, self.clock = database, lease, ManualClock()
        self.scaler = Scaler(database, self.clock)

    async def watch(self, pool: PoolView, seconds: int, seen: Seen, stage: Stage = SETTLED) -> int | None:
        """What is written in the end."""
        for _ in range(seconds):
            await self.scaler.consider(
                self.lease, pool, [replica("a")], {ReplicaId("a"): seen}, stage, self.clock.now()
            )
            self.clock.advance(1)
        async with self.database.read() as session:
            states = await states_of_node(session, "node")
        return states[pool.id].replicas if states else None


@pytest.fixture
async def bench(database_url: str) -> AsyncIterator[Bench]:
    database = Database(database_url, name="test")
    async with database.write() as session:
        session.add(Pool(id="pool_1", name="stub", spec=stub_spec().model_dump(mode="json")))
    async with database.write() as session:
        lease = await PoolRepository().acquire(session, "node", "owner", lambda owner: False)
    assert lease is not None
    yield Bench(database, lease)
    await database.close()


def test_a_sample_is_of_all_that_are_ready() -> None:
    crew = [replica("a"), replica("b"), replica("c", "starting"), replica("d", "draining")]
    seen = {ReplicaId("a"): saying(3, 1, 2.0), ReplicaId("b"): saying(5, 0, 1.0)}
    seen |= {ReplicaId("c"): saying(9, 9), ReplicaId("d"): saying(9, 9)}
    assert sampled(7.0, crew, seen) == Sample(7.0, 2, 8, 1, 1.5)
    assert sampled(7.0, crew, seen | {ReplicaId("b"): saying(5, 0)}) == Sample(7.0, 2, 8, 1, 2.0)
    for mute in (Seen(Observed(alive=True), None), Seen(Observed(alive=True), EngineStatus("ready", "e"))):
        assert sampled(7.0, crew, seen | {ReplicaId("b"): mute}) is None
    assert sampled(7.0, crew[2:], seen) is None


async def test_a_queue_is_written_as_a_number(bench: Bench) -> None:
    assert await bench.watch(a_pool(), 3, saying(8, 100)) == 2
    async with bench.database.read() as session:
        state = (await states_of_node(session, "node"))[PoolId("pool_1")]
    assert state.scaled_at is not None
    assert state.scaled_for == "a queue for 1 s: 100 wait for 1 replicas"


@pytest.mark.parametrize(
    "pool",
    [
        a_pool(autoscaler="external"),
        a_pool(min_replicas=1, max_replicas=1),
        a_pool(kind="external", urls=("http://one",)),
        replace(a_pool(), wanted=False),
    ],
)
async def test_nothing_is_written_where_it_is_not_ours_to_scale(bench: Bench, pool: PoolView) -> None:
    assert await bench.watch(pool, 5, saying(8, 100)) is None


async def test_nothing_is_written_while_replicas_are_replaced_or_missing(bench: Bench) -> None:
    for phase in (Stage("starting"), Stage("crashing"), Stage("blocked"), Stage("rolling")):
        assert await bench.watch(a_pool(), 5, saying(8, 100), phase) is None
    assert await bench.watch(a_pool(), 1, saying(8, 100)) is None, "a roll begins anew"


async def test_a_newer_specification_begins_anew(bench: Bench) -> None:
    assert await bench.watch(a_pool(), 1, saying(8, 100)) is None
    assert await bench.watch(replace(a_pool(), generation=2), 1, saying(8, 100)) is None


async def test_without_the_lease_nothing_is_written(bench: Bench) -> None:
    async with bench.database.write() as session:
        await session.execute(text("UPDATE supervisor_lease SET generation = generation + 1"))
    with pytest.raises(LeaseLost):
        await bench.watch(a_pool(), 3, saying(8, 100))
    async with bench.database.read() as session:
        assert await states_of_node(session, "node") == {}
