"""Local processes: addresses and devices once each, marks that are found again, and nothing left behind."""

import asyncio
import re
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.ids import ReplicaId
from gateway.pool.launcher import Assignment, LaunchError, Running
from gateway.pool.local import REPLICA_MARK, LocalLauncher, _last_line
from gateway.pool.process import ProcessMark
from tests.gateway.pool.conftest import stub_spec, until
from tests.ports import kept_port

REPLICA = ReplicaId("rep_1")


async def _start(launcher: LocalLauncher, replica: ReplicaId = REPLICA, **flags: object) -> Running:
    """Returns when the kernel shows its environment, which is a moment after it runs."""
    spec = stub_spec(flags=flags)
    running = await launcher.launch(
        replica, "stub", spec, launcher.assign(ReplicaId("rep_1"), spec, [], None)
    )

    async def shown() -> bool:
        return running.mark in list(launcher.processes(replica))

    await until(shown)
    return running


async def _until_dead(launcher: LocalLauncher, running: Running) -> int | None:
    for _ in range(2400):
        seen = await launcher.observe(running)
        if not seen.alive:
            return seen.exit_code
        await asyncio.sleep(0.05)
    raise AssertionError("still alive")


def test_devices_and_ports_are_never_given_twice(launcher: LocalLauncher) -> None:
    spec = stub_spec(gpus=(4, 5, 6), tensor_parallel=2, max_replicas=1)
    first = launcher.assign(ReplicaId("rep_1"), spec, [], None)
    assert first.gpus == (4, 5)
    with pytest.raises(LaunchError, match=r"2 GPUs needed, 1 of \[4, 5, 6\] free"):
        launcher.assign(ReplicaId("rep_1"), spec, [first], None)
    single = stub_spec(gpus=(5, 6), max_replicas=2)
    assert launcher.assign(ReplicaId("rep_1"), single, [first], None).gpus == (6,)


def test_a_former_port_is_kept_while_it_is_free(launcher: LocalLauncher) -> None:
    with kept_port() as port:
        former = f"http://127.0.0.1:{port}"
        assert launcher.assign(ReplicaId("rep_1"), stub_spec(), [], former).url == former
        assert (
            launcher.assign(ReplicaId("rep_1"), stub_spec(), [Assignment(former, ())], former).url != former
        )


async def test_a_replica_is_a_session_of_its_own_and_learns_no_secrets_of_the_gateway(
    launcher: LocalLauncher, tmp_path: Path
) -> None:
    running = await _start(launcher)
    try:
        assert running.mark is not None
        assert running.mark.leads_session()
        environ = running.mark.environ()
        assert environ[REPLICA_MARK] == REPLICA
        assert environ["CUDA_VISIBLE_DEVICES"] == ""
        assert "DATABASE_URL" not in environ
        assert "UP_PART" not in environ, "an engine is no part of `up` and outlives its supervisor"
        assert (tmp_path / "run" / REPLICA / "engine.log").stat().st_mode & 0o777 == 0o600
        await launcher.terminate(running)
        assert await _until_dead(launcher, running) == -signal.SIGTERM
    finally:
        await launcher.kill(REPLICA, running)


async def test_a_log_stays_bounded_while_its_replica_runs(
    launcher: LocalLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.pool.local._LOG_BYTES_MAX", 2000)
    running = await _start(launcher)
    assert running.log is not None
    older = running.log.with_suffix(".log.1")
    try:
        assert running.mark is not None
        for _ in range(2):
            with running.log.open("ab") as log:
                log.write(b"x" * 2001)
            assert (await launcher.observe(running)).alive
            assert running.log.stat().st_size < 2000
            assert older.stat().st_size >= 2001
        with running.log.open("ab") as log:
            log.write(b"its last words\n")
        cut_before = replace(running, log_from=1 << 30)
        assert running.mark.send(signal.SIGKILL)
        assert await _until_dead(launcher, cut_before) == -signal.SIGKILL
        assert _last_line(running.log, cut_before.log_from) == "its last words"
    finally:
        await launcher.kill(REPLICA, running)


async def test_a_replica_has_limits(launcher: LocalLauncher) -> None:
    running = await _start(launcher)
    try:
        assert running.mark is not None
        limits = (Path("/proc") / str(running.mark.pid) / "limits").read_text()
        assert re.search(r"Max core file size +0 +0 ", limits)
    finally:
        await launcher.kill(REPLICA, running)


async def test_a_replica_is_found_by_its_mark_and_without_it(launcher: LocalLauncher) -> None:
    running = await _start(launcher, helper=True)
    try:
        assert running.mark is not None
        assert await launcher.find(REPLICA, running.mark) == running
        assert await launcher.find(REPLICA, None) == running  # nobody wrote it down
        stale = ProcessMark(running.mark.pid, running.mark.start_ticks - 1)
        assert await launcher.find(REPLICA, stale) == running
        assert await launcher.find(ReplicaId("rep_2"), None) is None
        assert await launcher.strays([]) == (REPLICA,)
        assert await launcher.strays([REPLICA]) == ()
    finally:
        await launcher.kill(REPLICA, running)
    assert await launcher.find(REPLICA, running.mark) is None


async def test_kill_ends_the_children_of_a_dead_leader_too(launcher: LocalLauncher) -> None:
    running = await _start(launcher, helper=True)
    assert running.mark is not None

    async def helped() -> bool:
        return len(list(launcher.processes(REPLICA))) == 2

    await until(helped)
    assert running.mark.send(signal.SIGKILL)
    assert await _until_dead(launcher, running) == -signal.SIGKILL
    (helper,) = launcher.processes(REPLICA)
    await launcher.kill(REPLICA, None)
    assert not helper.alive()


async def test_another_installation_is_not_ours(launcher: LocalLauncher, tmp_path: Path) -> None:
    running = await _start(launcher)
    other = LocalLauncher(tmp_path / "other", key="a")
    try:
        assert await other.strays([]) == ()
        assert await other.find(REPLICA, None) is None
    finally:
        await launcher.kill(REPLICA, running)


async def test_a_missing_program_is_named(tmp_path: Path) -> None:
    launcher = LocalLauncher(tmp_path, key="a", environ={"PATH": str(tmp_path)})
    spec = stub_spec(kind="vllm")
    with pytest.raises(LaunchError, match="vllm is not installed"):
        await launcher.launch(REPLICA, "stub", spec, launcher.assign(ReplicaId("rep_1"), spec, [], None))
