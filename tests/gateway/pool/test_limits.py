"""Limits of real processes, and logs that their writers keep open."""

import resource
import subprocess
from pathlib import Path

import pytest

from gateway.pool.limits import NOFILE, cut_log, limit_process


def test_a_replica_leaves_no_core_and_may_open_many_files() -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        try:
            limit_process(child.pid)
            limits = Path(f"/proc/{child.pid}/limits").read_text()
            _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        finally:
            child.kill()
    rows = {line[:26].strip(): line[26:].split() for line in limits.splitlines()}
    assert rows["Max core file size"][:2] == ["0", "0"]
    expected = NOFILE if hard == resource.RLIM_INFINITY else min(NOFILE, hard)
    assert rows["Max open files"][0] == str(expected)


def test_a_process_that_has_ended_has_no_limits() -> None:
    with subprocess.Popen(["true"]) as child:
        child.wait()
    limit_process(child.pid)
    with pytest.raises(ProcessLookupError):
        resource.prlimit(child.pid, resource.RLIMIT_CORE)


def test_a_log_is_cut_while_it_is_written(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    assert not cut_log(log, 10), "there is none yet"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"0123456789")
        assert not cut_log(log, 10)
        writer.write(b"a")
        assert cut_log(log, 10)
        writer.write(b"later")
    assert log.read_bytes() == b"later", "without a hole"
    older = tmp_path / "engine.log.1"
    assert older.read_bytes() == b"0123456789a"
    assert older.stat().st_mode & 0o777 == 0o600
