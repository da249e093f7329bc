"""Journal segments on disk: framing, checksums, which files there are, and how a dead writer's file is closed.

A segment is `SSSSSSSSSSSS.wN.journal` (serial number, API process) and holds frames: length u32, CRC-32 u32,
payload. Its writer holds a lock on it as long as it lives, so that a file without a lock and without the
closing frame belongs to a dead process. Knows frames, not what the records in them mean.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"TWJ1"
_FRAME = struct.Struct("<II")
_MAX_PAYLOAD = 1 << 20
BLOCK_BYTES = 4 * _MAX_PAYLOAD
"""Read at once. Several frames of any size, so that what follows a spoilt one is found in the same block."""
_NAME = re.compile(r"(\d{12})\.w(\d+)\.journal")
CLOSED = b"closed"
"""Payload of the last frame of a segment that nobody writes any more."""


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    serial: int
    worker: int
    path: Path


def frame(payload: bytes) -> bytes:
    assert 0 < len(payload) <= _MAX_PAYLOAD
    return _FRAME.pack(len(payload), zlib.crc32(payload)) + payload


def list_segments(directory: Path) -> list[Segment]:
    """All segments, oldest first."""
    found = []
    for path in directory.iterdir() if directory.is_dir() else ():
        match = _NAME.fullmatch(path.name)
        if match:
            found.append(Segment(int(match[1]), int(match[2]), path))
    return sorted(found)


def create_segment(directory: Path, worker: int) -> tuple[int, Segment]:
    """A new, locked file → (descriptor, segment). A serial number is given once, also across processes and
    after segments were removed: the last one given stands in the directory's lock file."""
    with locked(directory) as lock:
        existing = list_segments(directory)
        given = os.pread(lock, 12, 0)
        serial = max(int(given) if given.isdigit() else 0, existing[-1].serial if existing else 0) + 1
        path = directory / f"{serial:012d}.w{worker}.journal"
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _write_all(descriptor, MAGIC)
            _write_all(lock, f"{serial:012d}".encode(), 0)
            _sync_directory(directory)
        except OSError:
            os.close(descriptor)
            path.unlink()
            raise
    return descriptor, Segment(serial, worker, path)


@contextmanager
def locked(directory: Path) -> Iterator[int]:
    """The directory, made if it is not there, held against other processes. Yields its lock file."""
    directory.mkdir(parents=True, exist_ok=True)
    lock = os.open(directory / "journal.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)


def read_frames(path: Path, offset: int) -> Iterator[tuple[bytes, int]]:
    """(payload, offset behind it) of every whole frame from `offset` on; ends at a torn or unfinished one. No more than a
    block of the file is in memory: a page is short, a segment long."""
    while True:
        data, began = read_from(path, offset, BLOCK_BYTES), offset
        for payload, offset in _frames_of(data, began):
            yield payload, offset
        if offset == began or len(data) < BLOCK_BYTES:
            return


def read_from(path: Path, offset: int, size: int) -> bytes:
    """Up to `size` bytes."""
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(size)


def holds(path: Path, offset: int, needle: bytes) -> bool:
    """Whether these bytes stand anywhere from `offset` on."""
    with path.open("rb") as file:
        file.seek(offset)
        kept = b""
        while block := file.read(BLOCK_BYTES):
            if needle in kept + block:
                return True
            kept = block[-len(needle) :]
    return not needle


def _frames_of(data: bytes, offset: int) -> Iterator[tuple[bytes, int]]:
    """The frames in `data`, which was read from `offset` on. A frame that the disk has spoilt costs only itself."""
    position = 0
    if offset == 0:
        if data[: len(MAGIC)] != MAGIC:
            return
        position = len(MAGIC)
    while (found := _next_frame(data, position)) is not None:
        payload, position = found
        yield payload, offset + position


def _next_frame(data: bytes, position: int) -> tuple[bytes, int] | None:
    """The first whole frame at or behind `position`, and where it ends. What is behind a torn tail is not looked for
    in vain for long: it ends with the data."""
    last = min(len(data), position + _FRAME.size + _MAX_PAYLOAD) - _FRAME.size
    for start in range(position, last + 1):
        length, checksum = _FRAME.unpack_from(data, start)
        begin = start + _FRAME.size
        if 0 < length <= min(_MAX_PAYLOAD, len(data) - begin):
            payload = data[begin : begin + length]
            if zlib.crc32(payload) == checksum:
                return payload, begin + length
    return None


@contextmanager
def hold_orphan(segment: Segment) -> Iterator[int | None]:
    """A descriptor to a segment whose writer is gone, locked; None while somebody writes to it."""
    descriptor = os.open(segment.path, os.O_RDWR)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield descriptor
    finally:
        os.close(descriptor)


def finish_orphan(descriptor: int, payloads: Sequence[bytes], end_of_valid: int) -> None:
    """Cut the torn tail, append `payloads` and the closing frame."""
    os.ftruncate(descriptor, end_of_valid)
    os.lseek(descriptor, 0, os.SEEK_END)
    head = MAGIC if end_of_valid < len(MAGIC) else b""
    _write_all(descriptor, head + b"".join(frame(payload) for payload in [*payloads, CLOSED]))
    os.fsync(descriptor)


def _write_all(descriptor: int, data: bytes, offset: int | None = None) -> None:
    """A regular file takes less than everything only when the disk is full."""
    written = os.write(descriptor, data) if offset is None else os.pwrite(descriptor, data, offset)
    if written < len(data):
        raise OSError(errno.ENOSPC, "the usage journal cannot be written: the disk is full")


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
