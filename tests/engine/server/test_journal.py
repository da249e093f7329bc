"""The usage journal survives kill -9 at any point, a full disk and rotation; what was written can be read."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from engine.server import journal, segments
from engine.server.journal import Journal, Record, close_orphans
from engine.server.journal_reader import read_page
from tests.seeds import seed_of_test

ROOT = Path(__file__).resolve().parents[3]
WRITER = """
import asyncio, sys
from pathlib import Path
from engine.server.journal import Journal, Record

async def main():
    journal = Journal(Path(sys.argv[1]), int(sys.argv[2]), lambda: 1)
    number = 0
    while True:
        name = f"e{number}"
        for kind, tokens in (("start", None), ("progress", 5), ("end", 9)):
            journal.write(Record(kind=kind, request_id=f"g{number}", engine_request_id=name,
                                 completion_tokens=tokens, epoch="x" * (number % 300)))
            # Printed only after write() returned: what is printed must be found.
            sys.stdout.write(f"{kind} {name}\\n")
            sys.stdout.flush()
        number += 1
        if number % 20 == 0:
            await asyncio.sleep(0)

asyncio.run(main())
"""


def record(name: str, kind: str = "start", **fields: object) -> Record:
    return Record(kind=kind, request_id=f"gw-{name}", engine_request_id=name, **fields)


def names(directory: Path) -> list[str]:
    return [f"{r.kind} {r.engine_request_id}" for r in read_page(directory, "", 10**6).records]


def test_kill_9_loses_and_tears_nothing(tmp_path: Path) -> None:
    """Eight writers, two at a time in one directory, each killed at a random moment."""
    seed = seed_of_test()
    rng = random.Random(seed)
    said: list[str] = []
    for _ in range(4):
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, str(tmp_path), str(worker)],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                text=True,
            )
            for worker in (0, 1)
        ]
        for writer in writers:
            assert writer.stdout is not None
            said.append(writer.stdout.readline().strip())
        time.sleep(rng.uniform(0, 0.1))
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
        for writer in writers:
            rest, _ = writer.communicate()
            said += [line for line in rest.split("\n")[:-1] if line]
        missing = Counter(said) - Counter(names(tmp_path))
        assert not missing
        assert close_orphans(tmp_path, 2) == 2
    found = names(tmp_path)
    assert len([n for n in found if n.startswith("start")]) == len([n for n in found if n.startswith("end")])
    assert close_orphans(tmp_path, 2) == 0


async def test_records_are_readable_at_once(tmp_path: Path) -> None:
    writer = Journal(tmp_path, 0, lambda: 77)
    writer.write(record("a"))
    assert [r.at_ms for r in read_page(tmp_path, "", 9).records] == [77]
    writer.write(record("a", "end", completion_tokens=3))
    assert names(tmp_path) == ["start a", "end a"]
    writer.close()
    assert names(tmp_path) == ["start a", "end a"]


async def test_fsync_comes_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (synced.append(descriptor), fsync(descriptor)))
    writer = Journal(tmp_path, 0, lambda: 1)
    synced.clear()
    for number in range(50):
        writer.write(record(str(number)))
    assert synced == []
    async with asyncio.timeout(60):
        while not synced:  # noqa: ASYNC110  # a thread does it
            await asyncio.sleep(0.01)
    assert len(synced) == 1
    await writer.flush()
    assert len(synced) == 2
    writer.close()


async def test_rotation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "SEGMENT_BYTES", 2000)
    writer = Journal(tmp_path, 0, lambda: 1)
    for number in range(40):
        writer.write(record(str(number)))
    assert len(segments.list_segments(tmp_path)) > 3
    assert names(tmp_path) == [f"start {number}" for number in range(40)]
    writer.close()


async def test_a_segment_is_closed_when_it_is_old(tmp_path: Path) -> None:
    """Else an engine with little to do would keep everything for ever."""
    now_ms = 1
    writer = Journal(tmp_path, 0, lambda: now_ms)
    writer.write(record("a"))
    now_ms += journal.SEGMENT_S * 1000
    writer.write(record("b"))
    writer.write(record("c"))
    first, second = segments.list_segments(tmp_path)
    assert (journal.is_closed(first), journal.is_closed(second)) == (True, False)
    assert names(tmp_path) == ["start a", "start b", "start c"]
    writer.close()


async def test_a_full_disk_fails_the_write_and_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Journal(tmp_path, 0, lambda: 1)
    writer.write(record("a"))
    (segment,) = segments.list_segments(tmp_path)
    whole, write = segment.path.read_bytes(), os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:7]))
    with pytest.raises(OSError, match="disk is full"):
        writer.write(record("b"))
    assert segment.path.read_bytes() == whole, "not even a torn frame"
    monkeypatch.setattr(os, "write", write)
    writer.write(record("c"))
    assert names(tmp_path) == ["start a", "start c"]
    writer.close()


async def test_rotation_fails_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records go on into the old segment; nothing is ever written to a descriptor that was closed, which by then
    is somebody else's."""
    monkeypatch.setattr(journal, "SEGMENT_BYTES", 2000)
    monkeypatch.setattr(journal, "_ROTATE_AGAIN_BYTES", 500)
    writer = Journal(tmp_path, 0, lambda: 1)

    def full(directory: Path, worker: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(segments, "create_segment", full)
        for number in range(20):
            writer.write(record(str(number)))
            with (tmp_path / "bystander").open("wb") as file:
                file.flush()
    assert (tmp_path / "bystander").read_bytes() == b""
    assert len(segments.list_segments(tmp_path)) == 1
    for number in range(20, 30):
        writer.write(record(str(number)))
    assert len(segments.list_segments(tmp_path)) > 1
    assert names(tmp_path) == [f"start {number}" for number in range(30)]
    writer.close()
    assert all(journal.is_closed(segment) for segment in segments.list_segments(tmp_path))


async def test_one_fsync_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that hangs collects no threads and no descriptors; what came meanwhile is synced afterwards."""
    monkeypatch.setattr(journal, "SYNC_S", 0.001)
    writer = Journal(tmp_path, 0, lambda: 1)
    synced: list[int] = []
    release = threading.Event()
    monkeypatch.setattr(os, "fsync", lambda descriptor: (synced.append(descriptor), release.wait(600)))
    for number in range(50):
        writer.write(record(str(number)))
        await asyncio.sleep(0.002)
    assert len(synced) == 1
    release.set()
    async with asyncio.timeout(60):
        while len(synced) < 2:  # noqa: ASYNC110  # a thread does it
            await asyncio.sleep(0.001)
    writer.close()


async def test_a_failing_fsync_is_said_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(journal, "SYNC_S", 0.001)
    writer = Journal(tmp_path, 0, lambda: 1)

    def failing(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", failing)
        for name in ("a", "b"):
            writer.write(record(name))
            async with asyncio.timeout(60):
                while "fsync failed" not in caplog.text:  # noqa: ASYNC110  # a thread does it
                    await asyncio.sleep(0.001)
            caplog.clear()
    writer.close()
    assert names(tmp_path) == ["start a", "start b"]


async def test_closing_on_a_full_disk_leaves_an_orphan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Journal(tmp_path, 0, lambda: 1)
    writer.write(record("a"))
    with monkeypatch.context() as broken:
        broken.setattr(os, "write", lambda descriptor, data: 0)
        writer.close()
        assert close_orphans(tmp_path, 9) == 0  # still full: said, and left for later
    assert close_orphans(tmp_path, 9) == 1
    assert names(tmp_path) == ["start a", "end a"]


async def test_requests_that_began_before_a_rotation_get_their_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead, other = Journal(tmp_path, 0, lambda: 1), Journal(tmp_path, 1, lambda: 1)
    for name in ("ended", "open", "moved"):
        dead.write(record(name, completion_tokens=3))
    other.write(record("of another process"))
    with monkeypatch.context() as small:
        small.setattr(dead, "_full_at", 0)
        dead.write(record("ended", "progress"))
    dead.write(record("ended", "end"))
    dead.write(record("moved", "progress", completion_tokens=5))
    os.close(dead._descriptor)
    assert close_orphans(tmp_path, 99) == 1
    ends = [r for r in read_page(tmp_path, "", 99).records if r.kind == "end" and r.finish_reason == "error"]
    assert [(r.engine_request_id, r.completion_tokens) for r in ends] == [("open", 3), ("moved", 5)]
    other.close()


async def test_without_a_directory_nothing_is_written() -> None:
    writer = Journal(None, 0, lambda: 1)
    writer.write(record("a"))
    await writer.flush()
    writer.close()
    assert writer._descriptor == -1


async def test_orphans_get_their_ends(tmp_path: Path) -> None:
    """A dead writer's open requests end with what was last reported; a living writer's are left alone."""
    living, dead = Journal(tmp_path, 0, lambda: 1), Journal(tmp_path, 1, lambda: 1)
    living.write(record("living"))
    dead.write(record("a", prompt_tokens=7, epoch="e"))
    dead.write(record("a", "progress", prompt_tokens=7, completion_tokens=64, epoch="e"))
    dead.write(record("b"))
    dead.write(record("c"))
    dead.write(record("c", "end", completion_tokens=1, finish_reason="stop"))
    os.write(dead._descriptor, b"\x40\x00\x00\x00torn")
    os.close(dead._descriptor)
    assert close_orphans(tmp_path, 99) == 1
    ends = [r for r in read_page(tmp_path, "", 99).records if r.kind == "end"]
    assert [(r.engine_request_id, r.completion_tokens, r.finish_reason) for r in ends] == [
        ("c", 1, "stop"),
        ("a", 64, "error"),
        ("b", 0, "error"),
    ]
    assert (ends[1].prompt_tokens, ends[1].epoch, ends[1].at_ms) == (7, "e", 99)
    assert close_orphans(tmp_path, 99) == 0
    living.close()


async def test_old_segments_go_after_a_week(tmp_path: Path) -> None:
    for _ in range(2):
        old = Journal(tmp_path, 0, lambda: 1)
        old.write(record("a"))
        old.close()
    first, second = segments.list_segments(tmp_path)
    os.utime(first.path, (1000, 1000))
    now = round(second.path.stat().st_mtime * 1000)
    journal.remove_old(tmp_path, now)
    assert segments.list_segments(tmp_path) == [second]
    fresh = Journal(tmp_path, 0, lambda: 1)
    assert segments.list_segments(tmp_path)[-1].serial == 3
    fresh.close()


def test_records_hold_the_contract_fields() -> None:
    fields = set(msgspec.to_builtins(record("a")))
    assert fields == {
        *("kind", "request_id", "engine_request_id", "attempt", "epoch", "prompt_tokens", "cached_tokens"),
        *("completion_tokens", "overrun_tokens", "resumed_from", "finish_reason", "queue_ms", "ttft_ms"),
        *("e2e_ms", "at_ms"),
    }
