"""Failpoints of the gateway: off unless a test arms them, obeyed once, and killing means SIGKILL."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import pytest

from gateway.obs import failpoints
from gateway.obs.failpoints import (
    DIRECTORY_VARIABLE,
    HOMES,
    MODE_VARIABLE,
    FailpointReached,
    Point,
    failpoint,
)

REACH = "from gateway.obs.failpoints import failpoint; failpoint('settle.committed'); print('passed')"


def reach_in_a_process(environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", REACH],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=600,
    )


def hits(directory: Path) -> list[str]:
    return sorted(path.name.partition("@")[0] for path in directory.glob("hit/*"))


def test_a_kill_is_a_kill_and_happens_once(tmp_path: Path) -> None:
    (tmp_path / "settle.committed").write_text("kill")
    environ = {DIRECTORY_VARIABLE: str(tmp_path), MODE_VARIABLE: "failpoints"}
    assert reach_in_a_process(environ).returncode == -signal.SIGKILL
    assert hits(tmp_path) == ["settle.committed"]
    again = reach_in_a_process(environ)
    assert (again.returncode, again.stdout) == (0, "passed\n")


@pytest.mark.parametrize("mode", [{}, {MODE_VARIABLE: "1"}])
def test_a_directory_alone_arms_nothing(tmp_path: Path, mode: dict[str, str]) -> None:
    (tmp_path / "settle.committed").write_text("kill")
    done = reach_in_a_process({DIRECTORY_VARIABLE: str(tmp_path), **mode})
    assert (done.returncode, done.stdout) == (0, "passed\n")
    assert hits(tmp_path) == []


def test_raise_and_delay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failpoints, "_ARMED", tmp_path)
    (tmp_path / "spool.applied").write_text("raise")
    with pytest.raises(FailpointReached, match=r"spool\.applied"):
        failpoint("spool.applied")
    failpoint("spool.applied")
    (tmp_path / "spool.applied").write_text("delay 0.05")
    began = time.monotonic()
    failpoint("spool.applied")
    assert time.monotonic() - began >= 0.05
    failpoint("settle.committed")
    assert hits(tmp_path) == ["spool.applied", "spool.applied"]


def test_off_in_this_very_process() -> None:
    assert failpoints._ARMED is None


def test_every_place_says_whose_it_is_and_is_passed_somewhere() -> None:
    """The kills of tests/e2e/chaos are chosen by it."""
    code = Path(failpoints.__file__).parents[1]
    passed = {
        name
        for path in code.rglob("*.py")
        for name in re.findall(r'\bfailpoint\("([^"]+)"\)', path.read_text())
    }
    assert passed == set(HOMES) == set(get_args(Point))
