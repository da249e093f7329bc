"""Settlements on disk while the database is away.

One file per gateway id, locked by the process that owns it. Each line carries its checksum; an append returns when
the line is on the disk, so a torn last line was never promised to anybody. Replaying is safe at any moment and any
number of times, because the ledger settles a request once. What a settlement means is not known here.
"""

import fcntl
import os
import threading
import zlib
from collections.abc import Sequence
from io import FileIO
from pathlib import Path
from typing import BinaryIO

__all__ = ["Spool", "SpoolLocked"]


class SpoolLocked(Exception):
    """Another process runs under the same gateway id; two of them would apply each other's spool."""


class Spool:
    """Appends and replays lines. Safe to use from the event loop and from a thread at once."""

    def __init__(self, directory: Path, gateway_id: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._path = directory / f"{gateway_id}.spool"
        self._rejected_path = directory / f"{gateway_id}.rejected"
        self._guard = threading.Lock()
        self._lock_file = _locked(directory / f"{gateway_id}.lock")
        self._file = self._open()
        self._size = self._file.seek(0, os.SEEK_END)
        """Where the last whole record ends."""
        self._count = len(self._read_lines())

    def __len__(self) -> int:
        return self._count

    def append(self, records: Sequence[bytes]) -> None:
        """Returns when the records are on the disk. Raises OSError if they are not: then none of them counts."""
        with self._guard:
            if self._file.seek(0, os.SEEK_END) != self._size:
                self._file.truncate(self._size)  # the half of a write that failed
            _write(self._file, records)
            self._size = self._file.tell()
            self._count += len(records)

    def read(self) -> list[bytes]:
        """All whole records, oldest first."""
        with self._guard:
            return self._read_lines()

    def remove_first(self, count: int) -> None:
        """Forget records that have been applied; later ones, which may have been added since, stay."""
        with self._guard:
            rest = self._read_lines()[count:]
            if rest:
                self._replace(rest)
            else:  # in place: a full disk has no room for a second file
                self._file.truncate(0)
                os.fsync(self._file.fileno())
            self._size = self._file.seek(0, os.SEEK_END)
            self._count = len(rest)

    def reject(self, record: bytes) -> None:
        """Keep a record that the database will never accept where a person finds it."""
        with self._guard, self._rejected_path.open("ab", buffering=0) as file:
            _write(file, [record])

    def close(self) -> None:
        self._file.close()
        self._lock_file.close()

    def _replace(self, records: Sequence[bytes]) -> None:
        fresh = self._path.with_suffix(".fresh")
        with fresh.open("wb", buffering=0) as file:
            _write(file, records)
        fresh.replace(self._path)
        self._file.close()
        self._file = self._open()

    def _open(self) -> FileIO:
        file = self._path.open("a+b", buffering=0)  # what failed to be written must not be written later
        _end_torn_line(file)
        descriptor = os.open(self._directory, os.O_RDONLY)
        os.fsync(descriptor)  # the file's name must survive a crash too
        os.close(descriptor)
        return file

    def _read_lines(self) -> list[bytes]:
        self._file.seek(0)
        lines = self._file.readall().splitlines(keepends=True)
        return [record for line in lines if (record := _record(line)) is not None]


def _locked(path: Path) -> BinaryIO:
    file = path.open("a+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise SpoolLocked(f"{path} is held by a running process: give each gateway its own id") from None
    return file


def _end_torn_line(file: FileIO) -> None:
    """What a crash left half written becomes a line of its own, which no checksum accepts."""
    size = file.seek(0, os.SEEK_END)
    if size:
        file.seek(size - 1)
        if file.read(1) != b"\n":
            file.write(b"\n")


def _write(file: FileIO, records: Sequence[bytes]) -> None:
    rest = memoryview(b"".join(_line(record) for record in records))
    while rest:
        rest = rest[file.write(rest) :]
    os.fsync(file.fileno())


def _line(record: bytes) -> bytes:
    assert b"\n" not in record
    return b"%08x %b\n" % (zlib.crc32(record), record)


def _record(line: bytes) -> bytes | None:
    checksum, _, record = line.rstrip(b"\n").partition(b" ")
    return record if line.endswith(b"\n") and checksum == b"%08x" % zlib.crc32(record) else None
