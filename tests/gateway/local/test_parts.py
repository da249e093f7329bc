"""Parts: started again when they end, ended with their children, found when their parent was killed."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.local.parts import HOME_MARK, PART_MARK, Part, PartFailed, end_orphans
from gateway.pool.process import ProcessMark, marked_processes
from tests.ports import kept_port

LOOP = "echo started; while :; do sleep 0.1; done"


async def _until(reached: Callable[[], bool]) -> None:
    for _ in range(2400):
        if reached():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("never reached")


def _leaders(home: Path) -> list[ProcessMark]:
    return [mark for mark, _ in marked_processes(HOME_MARK, str(home)) if mark.leads_session()]


def _starts(part: Part) -> int:
    return part.log.read_text().count("started") if part.log.exists() else 0


def _start_orphan(environ: dict[str, str]) -> None:
    """Through another process that ends: as after a crash, nobody here is its parent."""
    starter = "import subprocess,sys; subprocess.Popen(sys.argv[1:], start_new_session=True)"
    command = [sys.executable, "-W", "ignore", "-c", starter, "sh", "-c", LOOP]
    subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)


async def test_a_part_that_ends_is_started_again(tmp_path: Path) -> None:
    part = Part("part", ("sh", "-c", LOOP), os.environ, tmp_path)
    await part.start()
    part.ready = True
    try:
        await _until(lambda: _starts(part) == 1)
        (first,) = _leaders(tmp_path)
        assert first.send(signal.SIGKILL)
        await _until(lambda: _starts(part) == 2)
        part.check()
    finally:
        await part.stop(5)
    assert _leaders(tmp_path) == []


async def test_a_part_that_never_works_is_given_up(tmp_path: Path) -> None:
    script = (
        """echo started; echo '{"level": "error", "event": "port taken"}'; echo '{"level": "info"}'; exit 3"""
    )
    part = Part("part", ("sh", "-c", script), os.environ, tmp_path)
    await part.start()
    await _until(lambda: _starts(part) == 3)
    await asyncio.wait([part.keeper])
    with pytest.raises(PartFailed, match=r"part ended 3 times, at last with status 3 \(port taken\); see "):
        part.check()
    await part.stop(5)


async def test_what_does_not_listen_is_killed_with_its_children(tmp_path: Path) -> None:
    deaf = "trap '' TERM; sleep 600 & echo started; wait; wait"
    part = Part("part", ("sh", "-c", deaf), os.environ, tmp_path)
    await part.start()
    await _until(lambda: _starts(part) == 1)
    await part.stop(0.2)
    await _until(lambda: not list(marked_processes(HOME_MARK, str(tmp_path))))
    assert _leaders(tmp_path) == []


async def test_a_part_stopped_while_it_waits_to_start_again_stays_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.local.parts.RESTART_DELAY_S", 600.0)
    part = Part("part", ("sh", "-c", "echo started; exit 1"), os.environ, tmp_path)
    await part.start()
    await _until(lambda: _starts(part) == 1)
    await part.stop(5)
    assert _starts(part) == 1


async def test_orphans_of_this_home_are_ended_and_no_others(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for home, name in ((ours, "gateway"), (ours, "pool"), (theirs, "gateway")):
        _start_orphan({"PATH": os.environ["PATH"], HOME_MARK: str(home), PART_MARK: name})
    assert await end_orphans(ours) == ["gateway", "pool"]
    assert _leaders(ours) == []
    assert len(_leaders(theirs)) == 1
    assert await end_orphans(theirs) == ["gateway"]
    assert await end_orphans(theirs) == []


async def test_a_port_is_a_parts_only_if_its_own_process_holds_it(tmp_path: Path) -> None:
    """Another installation may have taken the port meanwhile, and answer there as well as ours would."""
    with socket.create_server(("127.0.0.1", 0)) as other, kept_port() as free:
        taken = other.getsockname()[1]
        listen = f"import socket, time; kept = socket.create_server(('127.0.0.1', {free})); time.sleep(600)"
        part = Part("part", (sys.executable, "-c", listen), os.environ, tmp_path)
        assert not part.listens_on(free)
        await part.start()
        try:
            await _until(lambda: part.listens_on(free))
            assert not part.listens_on(taken)
        finally:
            await part.stop(5)
