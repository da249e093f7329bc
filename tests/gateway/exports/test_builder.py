"""Parts: where they end, and that an export can be taken up after any of them, whatever killed it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from gateway.db import Database
from gateway.exports.builder import build
from gateway.exports.staging import Staging
from gateway.exports.types import FORMATS, ExportError, FormatName, PartFile
from tests.gateway.exports.ledger import DAY, Ledger, spec

PART_ROWS = 4
MOMENTS: dict[FormatName, str] = {"csv": "writing", "parquet": "named", "jsonl": "saved"}

# Stops itself, as kill -9 would, while it writes the part that is named.
_KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from gateway.db import Database
from gateway.exports import builder
from gateway.exports.staging import Staging
from tests.gateway.exports.ledger import spec

url, root, format, fatal, moment = sys.argv[1:]
finish, save = Staging.finish, Staging.save

def killed_before(self, name, rows):
    if moment == "writing" and name.startswith(fatal):
        os.kill(os.getpid(), signal.SIGKILL)
    part = finish(self, name, rows)
    if moment == "named" and name.startswith(fatal):
        os.kill(os.getpid(), signal.SIGKILL)
    return part

def killed_after(self, checkpoint):
    save(self, checkpoint)
    if moment == "saved" and checkpoint.parts[-1].name.startswith(fatal):
        os.kill(os.getpid(), signal.SIGKILL)

Staging.finish, Staging.save = killed_before, killed_after

async def run():
    database = Database(url, name="killed", pool_size=1)
    with Staging.open(Path(root), spec(format, days=2)) as staging:
        await builder.build(database, spec(format, days=2), staging, lambda done, total: None, part_rows=4)

asyncio.run(run())
"""


async def _built(database: Database, root: Path, format: FormatName) -> tuple[dict[str, bytes], bool]:
    """The files, and whether something was taken up."""
    wanted = spec(format, days=2)
    with Staging.open(root, wanted) as staging:
        taken_up = staging.checkpoint is not None
        await build(database, wanted, staging, lambda done, total: None, part_rows=PART_ROWS)
        return {path.name: path.read_bytes() for path in staging.directory.iterdir()}, taken_up


async def test_a_part_ends_with_its_hour(database: Database, ledger: Ledger, tmp_path: Path) -> None:
    for number in range(10):
        ledger.event(DAY + timedelta(minutes=number))
    for number in range(5):
        ledger.event(DAY + timedelta(hours=2, minutes=number))
    await ledger.write()
    files, _ = await _built(database, tmp_path, "jsonl")
    assert [len(files[name].splitlines()) for name in sorted(files) if name.startswith("part")] == [10, 5]


async def test_killed_anywhere_it_ends_with_the_same_bytes(
    database: Database, database_url: str, ledger: Ledger, tmp_path: Path
) -> None:
    await ledger.fill(days=2)
    ledger.event(DAY - timedelta(hours=1), recorded_after=timedelta(hours=9))
    await ledger.write()
    for format, moment in MOMENTS.items():
        whole, _ = await _built(database, tmp_path / "whole", format)
        assert len(whole) > 4
        root = str(tmp_path / "killed")
        arguments = [sys.executable, "-c", _KILLED, database_url, root, format, "part-00003", moment]
        killed = await asyncio.to_thread(subprocess.run, arguments, timeout=600)
        assert killed.returncode == -signal.SIGKILL
        again, taken_up = await _built(database, tmp_path / "killed", format)
        assert taken_up
        assert again == whole


async def test_cancelled_it_waits_for_its_thread(
    database: Database, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock of the directory is given up only when nobody writes in it any more."""
    await ledger.fill()
    began, may_end, ended = threading.Event(), threading.Event(), threading.Event()
    finish = Staging.finish

    def slow(self: Staging, name: str, rows: int) -> PartFile:
        began.set()
        may_end.wait(60)
        part = finish(self, name, rows)
        ended.set()
        return part

    monkeypatch.setattr(Staging, "finish", slow)
    building = asyncio.create_task(_built(database, tmp_path, "csv"))
    await asyncio.to_thread(began.wait, 60)
    building.cancel()
    await asyncio.sleep(0.05)
    assert not building.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await building
    assert ended.is_set()


async def test_a_full_disk_is_said(
    database: Database, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every format, and not as if the database were away."""
    await ledger.fill()
    await ledger.books.run("INSERT INTO stripe_customer VALUES ('proj_a', 'cus_a', '2026-01-01Z')")
    monkeypatch.setattr(Staging, "unfinished", lambda self, name: Path("/dev/full"))
    for format in FORMATS:
        with pytest.raises(ExportError, match=r"the export cannot be written: .*No space left on device"):
            await _built(database, tmp_path, format)
