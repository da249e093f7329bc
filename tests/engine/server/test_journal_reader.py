"""Paging through the journals of several processes: nothing twice, nothing missed, across restarts."""

from __future__ import annotations

import base64
import os
import random
from pathlib import Path

import msgspec
import pytest

from engine.server import journal, segments
from engine.server.journal import Journal, Record, close_orphans
from engine.server.journal_reader import CursorError, read_page
from engine.server.segments import list_segments
from tests.seeds import seed_of_test


def write(writer: Journal, name: str, request_id: str = "gw") -> None:
    writer.write(Record(kind="start", request_id=request_id, engine_request_id=name))


async def test_random_writers_and_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers come, write, rotate, close or die; a reader with small pages sees each record exactly once."""
    seed = seed_of_test()
    rng = random.Random(seed)
    monkeypatch.setattr(journal, "SEGMENT_BYTES", 3_000)
    monkeypatch.setattr(segments, "BLOCK_BYTES", 800)
    writers: list[Journal] = []
    written, seen, cursor = [], [], ""
    for number in range(600):
        if len(writers) < 3 and rng.random() < 0.2:
            writers.append(Journal(tmp_path, rng.randrange(3), lambda: 1))
        if writers:
            write(rng.choice(writers), f"r{number}")
            written.append(f"r{number}")
        if writers and rng.random() < 0.05:
            writer = writers.pop(rng.randrange(len(writers)))
            if rng.random() < 0.5:
                writer.close()
            else:
                os.write(writer._descriptor, b"\x10\x00")
                os.close(writer._descriptor)
        if rng.random() < 0.05:
            close_orphans(tmp_path, 1)
        if rng.random() < 0.3:
            page = read_page(tmp_path, cursor, rng.randrange(1, 5))
            seen += [r for r in page.records if r.kind == "start"]
            cursor = page.cursor
    complete = False
    while not complete:
        page = read_page(tmp_path, cursor, 7)
        seen += [r for r in page.records if r.kind == "start"]
        cursor, complete = page.cursor, page.complete
    assert sorted(r.engine_request_id for r in seen) == sorted(written)
    for writer in writers:
        writer.close()


async def test_a_long_segment_is_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One request's records too, wherever in a block they stand; the memory of a page does not grow with the file."""
    writer = Journal(tmp_path, 0, lambda: 1)
    for number in range(300):
        write(writer, f"r{number}", f"gw-{number:03}")
    writer.close()
    [segment] = list_segments(tmp_path)
    monkeypatch.setattr(segments, "BLOCK_BYTES", 1_000)
    sizes = []
    read = segments.read_from

    def spied(path: Path, offset: int, size: int = -1) -> bytes:
        data = read(path, offset, size)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(segments, "read_from", spied)
    assert [r.engine_request_id for r in read_page(tmp_path, "", 1000).records] == [
        f"r{number}" for number in range(300)
    ]
    for number in range(300):
        [record] = read_page(tmp_path, "", 10, f"gw-{number:03}").records
        assert record.engine_request_id == f"r{number}"
    assert read_page(tmp_path, "", 10, "gw-nobody").records == []
    assert segment.path.stat().st_size > 10 * 1_000 >= 10 * max(sizes)


async def test_cursor_stays_small(tmp_path: Path) -> None:
    for _ in range(50):
        writer = Journal(tmp_path, 0, lambda: 1)
        write(writer, "a")
        writer.close()
    assert len(read_page(tmp_path, "", 1000).cursor) < 40


async def test_pages_and_completeness(tmp_path: Path) -> None:
    writer = Journal(tmp_path, 0, lambda: 1)
    for name in "abc":
        write(writer, name)
    page = read_page(tmp_path, "", 2)
    assert ([r.engine_request_id for r in page.records], page.complete) == (["a", "b"], False)
    page = read_page(tmp_path, page.cursor, 2)
    assert ([r.engine_request_id for r in page.records], page.complete) == (["c"], True)
    page = read_page(tmp_path, page.cursor, 2)
    assert (page.records, page.complete) == ([], True)
    write(writer, "d")
    page = read_page(tmp_path, page.cursor, 2)
    assert [r.engine_request_id for r in page.records] == ["d"]
    writer.close()


async def test_one_request(tmp_path: Path) -> None:
    writer = Journal(tmp_path, 0, lambda: 1)
    for number in range(100):
        write(writer, str(number), "mine" if number % 10 == 0 else "other")
    page = read_page(tmp_path, "", 4, "mine")
    assert [r.engine_request_id for r in page.records] == ["0", "10", "20", "30"]
    page = read_page(tmp_path, page.cursor, 40, "mine")
    assert (page.records[0].engine_request_id, len(page.records)) == ("40", 6)
    writer.close()


async def test_one_request_among_closed_segments(tmp_path: Path) -> None:
    for number in range(6):
        writer = Journal(tmp_path, 0, lambda: 1)
        write(writer, str(number), 'a"b' if number in (1, 4) else "other")
        writer.close()
    living = Journal(tmp_path, 0, lambda: 1)
    page = read_page(tmp_path, "", 9, 'a"b')
    assert ([r.engine_request_id for r in page.records], page.complete) == (["1", "4"], True)
    write(living, "7", 'a"b')
    assert [r.engine_request_id for r in read_page(tmp_path, page.cursor, 9, 'a"b').records] == ["7"]
    living.close()


async def test_a_damaged_record_hides_only_what_follows_in_its_segment(tmp_path: Path) -> None:
    first = Journal(tmp_path, 0, lambda: 1)
    write(first, "a")
    write(first, "b")
    first.close()
    second = Journal(tmp_path, 0, lambda: 1)
    write(second, "c")
    second.close()
    path = list_segments(tmp_path)[0].path
    data = bytearray(path.read_bytes())
    data[data.rindex(b'"b"') + 1] ^= 1
    path.write_bytes(data)
    assert [r.engine_request_id for r in read_page(tmp_path, "", 9).records] == ["a", "c"]


async def test_a_segment_may_go_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer removes what is a week old, without asking."""
    for name in ("old", "new"):
        writer = Journal(tmp_path, 0, lambda: 1)
        write(writer, name)
        writer.close()
    found = list_segments(tmp_path)
    monkeypatch.setattr(segments, "list_segments", lambda _: found)
    found[0].path.unlink()
    page = read_page(tmp_path, "", 9)
    assert ([r.engine_request_id for r in page.records], page.complete) == (["new"], True)
    assert read_page(tmp_path, page.cursor, 9).records == []


def made_up(**values: object) -> str:
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(values)).decode()


@pytest.mark.parametrize(
    "cursor",
    [
        *("x", "%%%", "AAAA", "gqRkb25l", "é"),
        *(
            made_up(at={1: -1}),
            made_up(at={-1: 1}),
            made_up(at={1: 2**63}),
            made_up(done=-1),
            made_up(done=2**64 - 1),
        ),
        made_up(at=dict.fromkeys(range(5000), 0)),
        base64.urlsafe_b64encode(b"\x81\xa1x" + b"\x91" * 20_000 + b"\x00").decode(),  # lists in lists
    ],
)
def test_foreign_cursors_are_refused(tmp_path: Path, cursor: str) -> None:
    with pytest.raises(CursorError):
        read_page(tmp_path, cursor, 5)


def test_no_directory_yet(tmp_path: Path) -> None:
    page = read_page(tmp_path / "none", "", 5)
    assert (page.records, page.complete) == ([], True)


async def test_a_record_of_another_version_stands_before_nothing(tmp_path: Path) -> None:
    writer = Journal(tmp_path, 0, lambda: 1)
    write(writer, "a")
    writer._append(segments.frame(b'{"kind": "teleported"}'))
    write(writer, "b")
    page = read_page(tmp_path, "", 10)
    assert [record.engine_request_id for record in page.records] == ["a", "b"]
    assert read_page(tmp_path, page.cursor, 10).records == []
    writer.close()
