"""What stops a start is said in one sentence, and whatever had been started is stopped again."""

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.local.parts import HOME_MARK
from gateway.pool.process import marked_processes


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tollway-up-") as directory:
        Path(directory).chmod(0o711)
        yield Path(directory).resolve()


def _up(home: Path, *flags: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "gateway", "up", "--data", str(home), *flags]
    return subprocess.run(command, env=os.environ | environ, capture_output=True, text=True, check=False)


def test_only_one_at_a_time(home: Path) -> None:
    with (home / "up.lock").open("w") as lock:
        lock.write("4711")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = _up(home)
    assert refused.returncode == 1
    assert refused.stderr == f"error: already running as process 4711 with data in {home}\n"
    assert [path.name for path in home.iterdir()] == ["up.lock"]


def test_an_engine_that_does_not_start_ends_everything_and_names_its_log(home: Path) -> None:
    failed = _up(home, "--model", str(home / "no-such-model"), "--no-demo")
    assert failed.returncode == 1
    assert "error: the engine does not start (exited with " in failed.stderr
    log = Path(failed.stderr.rpartition("; see ")[2].strip())
    assert "no-such-model" in log.read_text()
    assert list(marked_processes(HOME_MARK, str(home))) == []
    assert not (home / "postgres" / "cluster" / "data" / "postmaster.pid").exists()


def test_a_database_that_is_away_is_no_traceback(home: Path, cache_url: str) -> None:
    away = _up(home, DATABASE_URL="postgresql://nobody@127.0.0.1:1/x", REDIS_URL=cache_url)
    assert away.returncode == 1
    assert away.stderr.startswith("error: the database (DATABASE_URL) cannot be used: [Errno 111]")
    assert "Traceback" not in away.stderr
