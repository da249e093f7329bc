"""Process identity: a mark is the process, not its number."""

import os
import signal
import subprocess
from dataclasses import replace

from gateway.pool.process import ProcessMark, free_port, port_is_free, reap, signal_group


def test_a_mark_outlives_nothing_but_its_process() -> None:
    command = ["/bin/sh", "-c", "echo; exec sleep 60"]
    child = subprocess.Popen(command, start_new_session=True, env={"MARK": "here"}, stdout=subprocess.PIPE)
    assert child.stdout is not None
    with child.stdout as stdout:
        stdout.readline()  # now it runs for certain, and the kernel shows its environment
    mark = ProcessMark.of(child.pid)
    assert mark is not None
    assert mark.alive()
    assert mark.environ()["MARK"] == "here"
    recycled = replace(mark, start_ticks=mark.start_ticks - 100)
    assert not recycled.alive()
    assert not signal_group(recycled, signal.SIGKILL)
    assert reap(child.pid) is None
    assert signal_group(mark, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    assert not mark.alive()
    assert mark.environ() == {}


def test_a_zombie_counts_as_dead() -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert ProcessMark.of(child.pid) is None
    assert reap(child.pid) == 0
    child.wait()


def test_free_port_can_be_bound() -> None:
    assert port_is_free(free_port())
