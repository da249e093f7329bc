"""The usage journal of one API process: what was really produced for whom, kept through any crash.

`start` when the core gets a request, `progress` with the first token and then every 64 tokens or 250 ms, `end`
before the caller sees the end. A record is in the kernel when the method returns (kill -9 loses nothing) and on
disk at most 50 ms later (fsync in groups, off the event loop). Read by `journal_reader`. Knows no HTTP and no
prices; times come from the injected clocks.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from engine.server import segments
from engine.server.segments import Segment

_LOG = logging.getLogger(__name__)
PROGRESS_TOKENS = 64
PROGRESS_S = 0.25
SYNC_S = 0.05
SEGMENT_BYTES = 16 << 20
KEEP_CLOSED_S = 7 * 86_400

RecordKind = Literal["start", "progress", "end"]


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the journal. Fields that do not apply to its kind are None."""

    kind: RecordKind
    request_id: str | None
    """The gateway's id; None for callers that gave none."""
    engine_request_id: str
    attempt: int | None = None
    epoch: str | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    """Tokens reported to the caller so far."""
    overrun_tokens: int | None = None
    """Computed after the end of the answer, never billed."""
    finish_reason: str | None = None
    queue_ms: float | None = None
    ttft_ms: float | None = None
    e2e_ms: float | None = None
    at_ms: int = 0


class Journal:
    """Writes records. One per API process; `directory` None means that no journal is kept."""

    def __init__(self, directory: Path | None, worker: int, wall_ms: Callable[[], int]) -> None:
        self._directory = directory
        self._worker = worker
        self._wall_ms = wall_ms
        self._encode = msgspec.json.Encoder().encode
        self._descriptor = -1
        self._size = 0
        self._sync_due: asyncio.TimerHandle | None = None
        if directory is not None:
            self._open(directory)

    def write(self, record: Record) -> None:
        """Append one record; it survives the death of this process when the call returns."""
        if self._directory is None:
            return
        payload = self._encode(msgspec.structs.replace(record, at_ms=self._wall_ms()))
        self._append(segments.frame(payload))
        if self._size > SEGMENT_BYTES:
            self._rotate(self._directory)
        if self._sync_due is None:
            self._sync_due = asyncio.get_running_loop().call_later(SYNC_S, self._start_sync)

    async def flush(self) -> None:
        """Until everything written so far is on disk."""
        if self._descriptor >= 0:
            await asyncio.to_thread(os.fsync, self._descriptor)

    def close(self) -> None:
        """Mark the segment as complete."""
        if self._descriptor < 0:
            return
        if self._sync_due is not None:
            self._sync_due.cancel()
        self._append(segments.frame(segments.CLOSED))
        os.fsync(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = -1
        self._directory = None

    def _open(self, directory: Path) -> None:
        self._descriptor, segment = segments.create_segment(directory, self._worker)
        self._size = len(segments.MAGIC)
        _LOG.info("journal segment %s", segment.path.name)

    def _append(self, data: bytes) -> None:
        """A record that does not fit on the disk leaves no torn frame: later ones must stay readable."""
        written = 0
        try:
            written = os.write(self._descriptor, data)
        finally:
            if written < len(data):
                os.ftruncate(self._descriptor, self._size)
        if written < len(data):
            raise OSError(errno.ENOSPC, "the usage journal cannot be written: the disk is full")
        self._size += written

    def _rotate(self, directory: Path) -> None:
        self._append(segments.frame(segments.CLOSED))
        os.fsync(self._descriptor)
        os.close(self._descriptor)
        self._open(directory)
        remove_old(directory, self._wall_ms())

    def _start_sync(self) -> None:
        self._sync_due = None
        if self._descriptor < 0:
            return
        descriptor = os.dup(self._descriptor)  # a rotation may close ours meanwhile
        asyncio.get_running_loop().run_in_executor(None, _sync_and_close, descriptor)


def close_orphans(directory: Path, wall_ms: int) -> int:
    """Close the segments of dead API processes: their open requests get an `end` with what was journalled.

    Run by the supervisor when an API process died and at the start. Returns the number of segments closed.
    """
    closed = 0
    for segment in segments.list_segments(directory):
        with segments.hold_orphan(segment) as descriptor:
            if descriptor is not None and not is_closed(segment):
                _finish(segment, descriptor, wall_ms)
                closed += 1
    return closed


def is_closed(segment: Segment) -> bool:
    """True when the closing frame is there: nothing will be added."""
    last = segments.frame(segments.CLOSED)
    size = segment.path.stat().st_size
    with segment.path.open("rb") as file:
        file.seek(max(0, size - len(last)))
        return file.read() == last


def remove_old(directory: Path, wall_ms: int) -> None:
    """Delete closed segments after a week: every reader has had its time."""
    for segment in segments.list_segments(directory):
        age_s = wall_ms / 1000 - segment.path.stat().st_mtime
        if age_s > KEEP_CLOSED_S and is_closed(segment):
            segment.path.unlink(missing_ok=True)


def _finish(segment: Segment, descriptor: int, wall_ms: int) -> None:
    open_requests: dict[str, Record] = {}
    end = 0
    for payload, end in segments.read_frames(segment.path, 0):  # noqa: B007  # the last offset is used below
        record = msgspec.json.decode(payload, type=Record)
        if record.kind == "end":
            open_requests.pop(record.engine_request_id, None)
        else:
            open_requests[record.engine_request_id] = record
    ends = [
        msgspec.json.encode(
            msgspec.structs.replace(
                record,
                kind="end",
                completion_tokens=record.completion_tokens or 0,
                finish_reason="error",
                at_ms=wall_ms,
            )
        )
        for record in open_requests.values()
    ]
    valid = max(end, len(segments.MAGIC)) if segment.path.stat().st_size >= len(segments.MAGIC) else 0
    segments.finish_orphan(descriptor, ends, valid)


def _sync_and_close(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
