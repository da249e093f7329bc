"""Frames on disk: whole or not there; names are given once."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from engine.server.segments import (
    CLOSED,
    MAGIC,
    create_segment,
    finish_orphan,
    frame,
    hold_orphan,
    list_segments,
    locked,
    read_frames,
)


def test_every_torn_tail_is_noticed(tmp_path: Path) -> None:
    """Cut the file at every byte: the whole frames before the cut come out, nothing else."""
    payloads = [b"a", b"bc" * 40, b"d"]
    whole = MAGIC + b"".join(map(frame, payloads))
    ends = [len(MAGIC) + sum(len(frame(p)) for p in payloads[: n + 1]) for n in range(3)]
    path = tmp_path / "x"
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        expected = [p for p, end in zip(payloads, ends, strict=True) if end <= cut]
        found = list(read_frames(path, 0))
        assert [payload for payload, _ in found] == expected
        assert [offset for _, offset in found] == ends[: len(expected)]


@pytest.mark.parametrize("at", range(5, 40))
def test_every_flipped_byte_is_noticed(tmp_path: Path, at: int) -> None:
    data = bytearray(MAGIC + frame(b"x" * 30))
    data[at] ^= 0x40
    (tmp_path / "x").write_bytes(data)
    assert list(read_frames(tmp_path / "x", 0)) == []


def test_reading_goes_on_from_an_offset(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(MAGIC + frame(b"a") + frame(b"b"))
    (_, offset), *_ = read_frames(path, 0)
    assert [payload for payload, _ in read_frames(path, offset)] == [b"b"]


def test_serials_are_given_once(tmp_path: Path) -> None:
    opened = [create_segment(tmp_path, worker) for worker in (0, 1, 0)]
    assert [segment.serial for _, segment in opened] == [1, 2, 3]
    for _, segment in opened:
        segment.path.unlink()
    descriptor, segment = create_segment(tmp_path, 5)
    assert (segment.serial, segment.worker) == (4, 5)
    assert list_segments(tmp_path) == [segment]
    for number in (descriptor, *(found for found, _ in opened)):
        os.close(number)


def test_a_living_writer_cannot_be_closed(tmp_path: Path) -> None:
    descriptor, segment = create_segment(tmp_path, 0)
    with hold_orphan(segment) as held:
        assert held is None
    os.close(descriptor)
    with hold_orphan(segment) as held:
        assert held is not None
        finish_orphan(held, [b"end"], len(MAGIC))
    assert [payload for payload, _ in read_frames(segment.path, 0)] == [b"end", CLOSED]


def test_a_segment_that_cannot_be_begun_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_files = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda descriptor, data: 0)
        with pytest.raises(OSError, match="full"):
            create_segment(tmp_path, 0)
    assert list_segments(tmp_path) == []
    assert len(os.listdir("/proc/self/fd")) == open_files
    descriptor, segment = create_segment(tmp_path, 0)
    os.close(descriptor)
    assert segment.serial == 1


def test_making_and_closing_exclude_each_other(tmp_path: Path) -> None:
    """Between a file's creation and its lock it looks like a dead writer's."""
    with locked(tmp_path):
        making = threading.Thread(target=lambda: os.close(create_segment(tmp_path, 0)[0]))
        making.start()
        making.join(0.05)
        assert list_segments(tmp_path) == []
    making.join(10)
    assert len(list_segments(tmp_path)) == 1


def test_an_orphan_without_a_head_gets_one(tmp_path: Path) -> None:
    descriptor, segment = create_segment(tmp_path, 0)
    os.ftruncate(descriptor, 2)
    os.close(descriptor)
    with hold_orphan(segment) as held:
        assert held is not None
        finish_orphan(held, [], 0)
    assert [payload for payload, _ in read_frames(segment.path, 0)] == [CLOSED]


@pytest.mark.parametrize("at", range(13, 51, 3))
def test_a_frame_that_the_disk_has_spoilt_costs_only_itself(tmp_path: Path, at: int) -> None:
    """Also when a dead writer's file is closed: what stands behind the spoilt frame is kept."""
    data = bytearray(MAGIC + frame(b"a") + frame(b"x" * 30) + frame(b"b" * 2000) + frame(b"c"))
    assert MAGIC + frame(b"a") == bytes(data[:13])
    data[at] ^= 0x40
    path = tmp_path / "x"
    path.write_bytes(data)
    found = list(read_frames(path, 0))
    assert [payload for payload, _ in found] == [b"a", b"b" * 2000, b"c"]
    assert found[-1][1] == len(data)
