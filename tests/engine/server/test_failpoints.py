"""Failpoints of the engine's API process: off unless a test arms them, obeyed once, and killing means SIGKILL."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.server import failpoints
from engine.server.failpoints import DIRECTORY_VARIABLE, MODE_VARIABLE, FailpointReached, failpoint

REACH = "from engine.server.failpoints import failpoint; failpoint('journal.ended'); print('passed')"


def reach_in_a_process(environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", REACH],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_a_kill_is_a_kill_and_happens_once(tmp_path: Path) -> None:
    (tmp_path / "journal.ended").write_text("kill")
    environ = {DIRECTORY_VARIABLE: str(tmp_path), MODE_VARIABLE: "failpoints"}
    assert reach_in_a_process(environ).returncode == -signal.SIGKILL
    assert [path.name.partition("@")[0] for path in tmp_path.glob("hit/*")] == ["journal.ended"]
    assert reach_in_a_process(environ).returncode == 0


def test_a_directory_alone_arms_nothing(tmp_path: Path) -> None:
    (tmp_path / "journal.ended").write_text("kill")
    assert reach_in_a_process({DIRECTORY_VARIABLE: str(tmp_path)}).returncode == 0
    assert failpoints._ARMED is None


def test_raise_and_delay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failpoints, "_ARMED", tmp_path)
    (tmp_path / "journal.started").write_text("raise")
    with pytest.raises(FailpointReached, match=r"journal\.started"):
        failpoint("journal.started")
    (tmp_path / "journal.started").write_text("delay 0.05")
    began = time.monotonic()
    failpoint("journal.started")
    assert time.monotonic() - began >= 0.05
