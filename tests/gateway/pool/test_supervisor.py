"""The supervisor on real processes and a real database: start, publish, crash, adopt, roll, drain."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

import pytest
from sqlalchemy import text

from gateway.db import Database
from gateway.ids import PoolId, ReplicaId
from gateway.pool.local import LocalLauncher
from gateway.pool.nodes import NodeState, node_states
from gateway.pool.probe import Probe
from gateway.pool.repository import LeaseLost
from gateway.pool.supervisor import Supervisor
from gateway.pool.views import ReplicaView
from tests.gateway.pool.conftest import stub_spec, until, with_tools
from tests.gateway.pool.devices.smi import FIRST, SECOND, h200, say
from tests.gateway.pool.stepping import Stepped
from tests.patience import LONG_S

NODE = "node"


class Bench(Stepped):
    """On this machine."""

    node = NODE

    def __init__(self, database: Database, launcher: LocalLauncher, probe: Probe) -> None:
        super().__init__(database, probe)
        self.launcher = launcher
        self.supervisor = self.another()

    def another(self) -> Supervisor:
        return self.supervising(self.launcher, lambda replica: str(self.launcher.directory(replica)))

    async def until_told(self, phase: str, reason: str) -> None:
        """Step until the supervisor says so of the only pool."""
        told: list[NodeState] = []
        for _ in range(2400):
            await self.supervisor.step()
            async with self.database.read() as session:
                told = await node_states(session, [PoolId("pool_stub")])
            if [(one.node, one.phase, one.reason) for one in told] == [(NODE, phase, reason)]:
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"never told: {told}")


@pytest.fixture
async def bench(database_url: str, launcher: LocalLauncher, probe: Probe) -> AsyncIterator[Bench]:
    database = Database(database_url, name="test")
    try:
        yield Bench(database, launcher, probe)
    finally:
        await database.close()
        for replica in await launcher.strays([]):
            await launcher.kill(replica, await launcher.find(replica, None))


async def test_it_starts_waits_publishes_and_restarts_after_a_crash(bench: Bench) -> None:
    await bench.want(stub_spec(flags={"load-s": 0.3}))
    assert not await bench.supervisor.step()
    (starting,) = await bench.replicas()
    assert starting.state == "starting"
    (ready,) = await bench.until_ready()
    assert ready.mark is not None
    assert ready.epoch == f"epoch-{ready.mark.pid}"
    assert ready.mark.send(signal.SIGKILL)
    (failed,) = await bench.until(lambda all_: all_[0].state == "failed")
    assert (failed.restarts, failed.mark) == (1, None)
    (again,) = await bench.until_ready()
    assert (again.id, again.url) == (ready.id, ready.url)
    assert again.epoch != ready.epoch


async def test_a_restarted_supervisor_adopts_what_runs(bench: Bench) -> None:
    await bench.want(stub_spec())
    (before,) = await bench.until_ready()
    async with bench.database.write() as session:  # as if it had died between the start and its writing
        await session.execute(
            text("UPDATE replica SET state = 'starting', pid = NULL, pid_started_ticks = NULL")
        )
    bench.supervisor = bench.another()
    (after,) = await bench.until_ready()
    assert after.epoch == before.epoch


async def test_a_supervisor_without_the_lease_does_nothing(bench: Bench) -> None:
    await bench.want(stub_spec())
    async with bench.database.write() as session:
        held = "INSERT INTO supervisor_lease VALUES ('node', 'other', 1, now() + interval '1 h')"
        await session.execute(text(held))
    assert not await bench.supervisor.step()
    assert await bench.replicas() == []


async def test_two_supervisors_start_nothing_twice_and_a_late_one_changes_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both look at the same node. The first is paused past its lease without noticing; the other adopts what it had
    started, and what the first would do then is refused by the database."""
    first = bench.supervisor
    monkeypatch.setattr("gateway.pool.supervisor.own_identity", lambda: "elsewhere/1/1")
    second = bench.another()
    await bench.want(stub_spec(min_replicas=2))

    async def ready(count: int, *stepping: Supervisor) -> list[ReplicaView]:
        for _ in range(2400):
            await asyncio.gather(*(one.step() for one in stepping))
            replicas = await bench.replicas()
            assert len(replicas) <= count
            if [one.state for one in replicas] == ["ready"] * count:
                return replicas
            await asyncio.sleep(0.05)
        raise AssertionError(f"never ready: {replicas}")

    before = await ready(2, first, second)
    assert second._lease is None
    async with bench.database.write() as session:
        await session.execute(text("UPDATE supervisor_lease SET expires_at = now() - interval '1 s'"))
    assert not await second.step()
    assert second._lease is not None
    await bench.want(stub_spec(min_replicas=3))
    monkeypatch.setattr("gateway.pool.supervisor.RENEW_S", 3600.0)  # it does not ask whether it still has it
    with pytest.raises(LeaseLost):
        await first.step()
    assert [one.id for one in await bench.replicas()] == [one.id for one in before]
    after = await ready(3, second)
    assert [one.epoch for one in after[:2]] == [one.epoch for one in before], "adopted, not started again"
    running = [mark for one in after for mark in bench.launcher.processes(one.id) if mark.leads_session()]
    assert sorted(mark.pid for mark in running) == sorted(
        one.mark.pid for one in after if one.mark is not None
    )


async def test_a_newer_specification_replaces_without_a_gap(bench: Bench) -> None:
    await bench.want(stub_spec())
    (old,) = await bench.until_ready()
    await bench.want(stub_spec(flags={"load-s": 0.5}), generation=2)
    ready_counts: list[int] = []

    def rolled(replicas: list[ReplicaView]) -> bool:
        ready_counts.append(sum(one.state == "ready" for one in replicas))
        return [one.state for one in replicas] == ["ready"] and replicas[0].id != old.id

    (new,) = await bench.until(rolled)
    assert new.pool_generation == 2
    assert min(ready_counts) >= 1
    assert new.url != old.url


async def test_where_devices_are_short_an_old_replica_leaves_first(bench: Bench) -> None:
    """Duty H42: two replicas on two devices, rolled: one serves at any time, no device is booked twice, and it is told
    how far it is."""
    spec = {"gpus": (0, 1), "min_replicas": 2, "max_replicas": 2}
    await bench.want(stub_spec(**spec))
    first = await bench.until_ready(2)
    await bench.want(stub_spec(**spec, flags={"load-s": 0.2}), generation=2)
    serving: set[int] = set()
    devices: list[list[int]] = []

    def rolled(replicas: list[ReplicaView]) -> bool:
        serving.add(sum(one.state == "ready" for one in replicas))
        devices.append([gpu for one in replicas for gpu in one.gpus])
        return [(one.state, one.pool_generation) for one in replicas] == [("ready", 2)] * 2

    await bench.until(rolled)
    assert min(serving) == 1
    assert all(len(booked) == len(set(booked)) <= 2 for booked in devices)
    assert len(first) == 2
    await bench.until_told("settled", "")


async def test_a_roll_without_a_device_says_so_and_goes_on_by_leave(bench: Bench) -> None:
    spec = {"gpus": (0,), "max_replicas": 1}
    await bench.want(stub_spec(**spec))
    (old,) = await bench.until_ready()
    newer = spec | {"flags": {"load-s": 0.1}}
    await bench.want(stub_spec(**newer), generation=2)
    reason = "0 of 1 replaced; no free device for a new replica, and none may leave before it"
    await bench.until_told("blocked", reason)
    assert [one.id for one in await bench.replicas()] == [old.id], "nothing else is started meanwhile"
    await bench.want(stub_spec(**newer, max_unavailable=1), generation=2)
    (new,) = await bench.until(
        lambda all_: [(one.state, one.pool_generation) for one in all_] == [("ready", 2)]
    )
    assert new.gpus == (0,)


async def test_a_newer_specification_of_an_external_engine_starts_nothing(
    bench: Bench, open_launcher: LocalLauncher
) -> None:
    where = open_launcher.assign(ReplicaId("rep_1"), stub_spec(), [], None)
    other = ReplicaId("rep_elsewhere")
    running = await open_launcher.launch(other, "stub", stub_spec(), where)
    try:
        spec = {"kind": "external", "urls": (where.url,), "max_replicas": 1}
        bench.launcher = LocalLauncher(bench.launcher.directory(other) / "ours", key="x")
        bench.supervisor = bench.another()  # whose engine it is not
        await bench.want(stub_spec(**spec))
        (before,) = await bench.until_ready()
        await bench.want(stub_spec(**spec, served_names=("renamed",)), generation=2)
        (after,) = await bench.until(lambda all_: {one.pool_generation for one in all_} == {2})
        assert (after.id, after.state, after.url) == (before.id, "ready", where.url)
        await bench.until_told("settled", "")
    finally:
        await open_launcher.kill(other, running)


async def test_drain_all_leaves_no_process_and_a_new_start_has_the_same_address(bench: Bench) -> None:
    await bench.want(stub_spec(min_replicas=2, flags={"helper": True}))
    before = await bench.until_ready(2)
    await bench.supervisor.drain_all()
    assert await bench.replicas() == []
    assert await bench.launcher.strays([]) == ()
    bench.supervisor = bench.another()
    after = await bench.until_ready(2)
    assert {one.id for one in after} == {one.id for one in before}
    assert {one.url for one in after} == {one.url for one in before}


async def test_a_device_is_never_booked_twice(bench: Bench) -> None:
    await bench.want(stub_spec(gpus=(0,), max_replicas=1), "first")
    await bench.until_ready()
    await bench.want(stub_spec(gpus=(0,), max_replicas=1), "second")
    replicas = await bench.until(lambda all_: {one.state for one in all_} == {"ready", "failed"})
    assert sorted(one.gpus for one in replicas) == [(), (0,)]
    async with bench.database.read() as session:
        reason = await session.scalar(text("SELECT last_error FROM replica WHERE state = 'failed'"))
    assert reason == "1 GPUs needed, 0 of [0] free"


async def test_devices_are_booked_by_uuid_and_a_broken_one_is_given_to_nobody(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real `nvidia-smi` as far as it prints. One pool names a device by its index, another by its UUID."""
    monkeypatch.setattr("gateway.pool.devices.watch.EVERY_S", 0.0)
    monkeypatch.setattr("gateway.pool.devices.watch.FIRST_S", LONG_S)
    tools = tmp_path / "tools"
    say(tools, h200())
    bench.launcher = with_tools(tmp_path, tools)
    bench.supervisor = bench.another()
    await bench.want(stub_spec(gpus=(0, 1), max_replicas=1), "first")
    (first,) = await bench.until_ready()
    assert (first.gpus, first.devices) == ((0,), (FIRST,))
    assert first.mark is not None
    assert first.mark.environ()["CUDA_VISIBLE_DEVICES"] == FIRST
    await bench.want(stub_spec(gpus=(FIRST, SECOND), max_replicas=1), "second")
    replicas = await bench.until_ready(2)
    assert sorted(one.devices for one in replicas) == sorted([(FIRST,), (SECOND,)])

    await bench.want(stub_spec(gpus=(FIRST, SECOND), max_replicas=1, min_replicas=0), "second")
    await bench.until(lambda all_: [one.id for one in all_] == [first.id])
    say(tools, h200(("Reset", "None")))
    (moved,) = await bench.until(
        lambda all_: [(one.state, one.devices) for one in all_] == [("ready", (SECOND,))]
    )
    assert (moved.id, moved.restarts) == (first.id, 1)
    assert moved.last_error == f"{FIRST} (GPU 0): the driver asks for recovery: Reset"

    say(tools, h200(("Reset", "Reboot")))
    (stuck,) = await bench.until(
        lambda all_: all_[0].state == "failed" and "needed" in str(all_[0].last_error)
    )
    assert stuck.last_error is not None
    assert stuck.last_error.startswith(
        "1 GPUs needed, 0 of [0, 1] free (0: the driver asks for recovery: Reset;"
    )
    say(tools, h200())
    (well,) = await bench.until_ready()
    assert well.devices == (FIRST,)


async def test_a_queue_brings_more_replicas_and_its_end_fewer(bench: Bench, tmp_path: Path) -> None:
    """Real processes that say what they are told to."""
    says = tmp_path / "says"

    def say_load(running: int, waiting: int, delay_ms: int) -> None:
        fresh = tmp_path / "says.new"
        fresh.write_text(json.dumps({"running": running, "waiting": waiting, "delay_ms": delay_ms}))
        fresh.replace(says)

    say_load(2, 100, 1500)
    quick = {"up_after_s": 1, "down_after_s": 1, "cooldown_s": 0}
    spec = {"max_replicas": 2, "scaling": quick, "flags": {"says": str(says)}}
    await bench.want(stub_spec(**spec))
    await bench.until_ready(2)
    say_load(0, 0, 0)
    await bench.until_ready(1)
    async with bench.database.read() as session:
        told = (await node_states(session, [PoolId("pool_stub")]))[0]
    assert (told.replicas, told.scaled_for) == (1, "no queue for 1 s, and the others can take the work")


async def test_a_crash_loop_is_reported_and_slowed(bench: Bench) -> None:
    await bench.want(stub_spec(flags={"crash": 3}))
    (failed,) = await bench.until(
        lambda all_: bool(all_) and all_[0].restarts >= 2 and all_[0].state == "failed"
    )
    async with bench.database.read() as session:
        assert await session.scalar(text("SELECT last_error FROM replica")) == (
            "exited with 3: stub: error: told to crash"
        )
    assert failed.ready_at is None
    (again,) = await bench.until(
        lambda all_: bool(all_) and all_[0].restarts >= 3 and all_[0].state == "failed"
    )
    await bench.until_told(
        "crashing", f"{again.id}, {again.restarts} times in a row: exited with 3: stub: error: told to crash"
    )


async def test_strays_are_ended(bench: Bench) -> None:
    spec = stub_spec()
    stray = ReplicaId("rep_unknown")
    running = await bench.launcher.launch(
        stray, "stub", spec, bench.launcher.assign(ReplicaId("rep_1"), spec, [], None)
    )

    async def shown() -> bool:
        return await bench.launcher.strays([]) == (stray,)

    await until(shown)
    await bench.supervisor.step()
    assert not (await bench.launcher.observe(running)).alive


async def test_an_external_engine_is_published_and_forgotten(
    bench: Bench, open_launcher: LocalLauncher
) -> None:
    spec = stub_spec()
    other = ReplicaId("rep_elsewhere")
    # Open, since a third party's engine is never sent our key.
    where = open_launcher.assign(ReplicaId("rep_1"), spec, [], None)
    running = await open_launcher.launch(other, "stub", spec, where)
    await bench.want(stub_spec(kind="external", urls=(where.url,), max_replicas=1))
    bench.launcher = LocalLauncher(bench.launcher.directory(other) / "ours", key="x")
    bench.supervisor = bench.another()
    (replica,) = await bench.until_ready()
    assert (replica.url, replica.mark, replica.epoch) == (where.url, None, None)
    await bench.supervisor.drain_all()
    assert await bench.replicas() == []
    assert running.mark is not None
    assert running.mark.alive()


async def test_run_ends_when_told_and_frees_the_lease(bench: Bench) -> None:
    await bench.want(stub_spec())
    stopping = asyncio.Event()
    loop: Awaitable[None] = asyncio.create_task(bench.supervisor.run(stopping))

    async def ready() -> bool:
        return [one.state for one in await bench.replicas()] == ["ready"]

    await until(ready)
    stopping.set()
    await loop
    async with bench.database.read() as session:
        assert await session.scalar(text("SELECT expires_at <= now() FROM supervisor_lease"))
    (still,) = await bench.replicas()
    assert still.mark is not None
    assert still.mark.alive()
