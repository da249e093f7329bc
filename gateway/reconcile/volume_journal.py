"""The journal of a replica that is gone, read from its volume.

Knows the segments' framing, which is part of the contract with the engine: files `SSSSSSSSSSSS.wN.journal` that
begin with `TWJ1`, then frames of length u32, CRC-32 u32 (little-endian) and a JSON record; `closed` is the last
frame of a finished one; a writer that lives holds a lock on its file. Reads only. Blocks on files: run it in a
thread.
"""

import fcntl
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gateway.reconcile.journal import JournalRecord, UnreadableRecord
from gateway.reconcile.records import read_records

__all__ = ["VolumeInUse", "VolumeJournal", "VolumePage"]

_MAGIC = b"TWJ1"
_CLOSED = b"closed"
_FRAME = struct.Struct("<II")
_PAYLOAD_BYTES_MAX = 1 << 20
_NAME = re.compile(r"\d{12}\.w\d+\.journal")


class VolumeInUse(Exception):
    """Somebody still writes here: the engine lives and can be asked."""


@dataclass(frozen=True, slots=True)
class VolumePage:
    records: tuple[JournalRecord, ...]
    unreadable: tuple[UnreadableRecord, ...]


@dataclass(slots=True)
class VolumeJournal:
    """One directory. Remembers which segments it has read, so that a second look costs a listing."""

    directory: Path
    _read: dict[str, int] = field(default_factory=dict)
    """File name → size when it was read; nobody writes any more, so the size settles it."""

    def pages(self) -> Iterator[VolumePage]:
        """A page per segment that was not read yet, oldest first. Raises VolumeInUse, or OSError."""
        for path in sorted(path for path in self.directory.iterdir() if _NAME.fullmatch(path.name)):
            with path.open("rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise VolumeInUse(str(path)) from None
                data = file.read()
            if self._read.get(path.name) == len(data):
                continue
            yield VolumePage(*read_records(_payloads(data)))
            self._read[path.name] = len(data)


def _payloads(data: bytes) -> Iterator[bytes]:
    """Every whole frame. A torn tail was never promised to anybody; a frame that the disk has spoilt costs only
    itself."""
    position = len(_MAGIC) if data.startswith(_MAGIC) else len(data)
    while (found := _next_frame(data, position)) is not None:
        payload, position = found
        if payload != _CLOSED:
            yield payload


def _next_frame(data: bytes, position: int) -> tuple[bytes, int] | None:
    last = min(len(data), position + _FRAME.size + _PAYLOAD_BYTES_MAX) - _FRAME.size
    for start in range(position, last + 1):
        length, checksum = _FRAME.unpack_from(data, start)
        begin = start + _FRAME.size
        if 0 < length <= min(_PAYLOAD_BYTES_MAX, len(data) - begin):
            payload = data[begin : begin + length]
            if zlib.crc32(payload) == checksum:
                return payload, begin + length
    return None
