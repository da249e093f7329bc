"""Process identity: a mark is the process, not its number."""

import os
import signal
import subprocess
from dataclasses import replace

from gateway.pool.process import ProcessMark, free_port, port_is_free, reap, signal_group


def test_a_mark_outlives_nothing_but_its_process() -> None:
    child = subprocess.Popen(
        ["/bin/cat"],
        start_new_session=True,
        env={"MARK": "here"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b"\n")
        child.stdin.flush()
        child.stdout.readline()  # now it runs for certain, and the kernel shows its environment
        _assert_marked_until_killed(child)


def _assert_marked_until_killed(child: "subprocess.Popen[bytes]") -> None:
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
