"""The volume reader against files that the engine's own journal wrote."""

import asyncio
from pathlib import Path

import pytest

from engine.server import segments
from engine.server.journal import Journal, Record
from gateway.reconcile.volume_journal import VolumeInUse, VolumeJournal

NOW_MS = 1_764_417_600_000


async def _write(directory: Path, *completions: int, worker: int = 0) -> Journal:
    journal = Journal(directory, worker, lambda: NOW_MS)
    for completion in completions:
        journal.write(
            Record(
                kind="progress",
                request_id="req_1",
                engine_request_id="cmpl",
                attempt=0,
                epoch="e1",
                prompt_tokens=10,
                completion_tokens=completion,
            )
        )
    return journal


def _completions(volume: VolumeJournal) -> list[int]:
    return [record.completion_tokens for page in volume.pages() for record in page.records]


async def test_the_records_of_an_engine_are_read_once(tmp_path: Path) -> None:
    (await _write(tmp_path, 1, 2)).close()
    volume = VolumeJournal(tmp_path)
    assert _completions(volume) == [1, 2]
    (await _write(tmp_path, 3, worker=1)).close()
    assert _completions(volume) == [3]
    assert _completions(volume) == []


async def test_a_journal_that_is_written_to_is_not_read(tmp_path: Path) -> None:
    journal = await _write(tmp_path, 1)
    with pytest.raises(VolumeInUse):
        _completions(VolumeJournal(tmp_path))
    journal.close()
    assert _completions(VolumeJournal(tmp_path)) == [1]


async def test_a_torn_tail_and_a_strange_frame_cost_nothing_else(tmp_path: Path) -> None:
    (await _write(tmp_path, 1)).close()
    (segment,) = segments.list_segments(tmp_path)
    whole = segment.path.read_bytes()
    strange = segments.frame(b'{"kind": "teleported"}')
    segment.path.write_bytes(whole + strange + strange[:-3])
    (page,) = VolumeJournal(tmp_path).pages()
    assert ([one.completion_tokens for one in page.records], len(page.unreadable)) == ([1], 1)
    (tmp_path / "000000000009.w0.journal").write_bytes(b"TW")
    (tmp_path / "notes.txt").write_bytes(b"not a segment")
    assert _completions(VolumeJournal(tmp_path)) == [1]


async def test_a_frame_that_the_disk_has_spoilt_costs_only_itself(tmp_path: Path) -> None:
    (await _write(tmp_path, 1, 2, 3)).close()
    (segment,) = segments.list_segments(tmp_path)
    data = bytearray(segment.path.read_bytes())
    data[len(data) // 2] ^= 0x40
    segment.path.write_bytes(data)
    assert _completions(VolumeJournal(tmp_path)) == [1, 3]


async def test_a_volume_that_is_not_here_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await asyncio.to_thread(_completions, VolumeJournal(tmp_path / "gone"))
