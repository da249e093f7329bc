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
SEGMENT_S = 86_400
"""A segment that is written to for longer than this is closed too, so that it can grow old."""
_ROTATE_AGAIN_BYTES = 1 << 20
"""How much more goes into a segment after the next one could not be made."""
_ROTATE_AGAIN_S = 60
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
    resumed_from: int | None = None
    """The attempt whose answer this one goes on with; None for one that began anew."""
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
        self._full_at = SEGMENT_BYTES
        self._old_at_ms = 0
        self._sync_due: asyncio.TimerHandle | None = None
        self._is_syncing = False
        self._is_dirty = False
        """Something was written since the last fsync began."""
        if directory is not None:
            self._open(directory)

    def write(self, record: Record) -> None:
        """Append one record; it survives the death of this process when the call returns. Raises OSError when it
        cannot be written."""
        if self._directory is None:
            return
        payload = self._encode(msgspec.structs.replace(record, at_ms=self._wall_ms()))
        self._append(segments.frame(payload))
        if self._size > self._full_at or self._wall_ms() >= self._old_at_ms:
            self._rotate(self._directory)
        self._is_dirty = True
        self._plan_sync()

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
        self._close_segment()
        self._descriptor = -1
        self._directory = None

    def _open(self, directory: Path) -> None:
        self._descriptor, segment = segments.create_segment(directory, self._worker)
        self._size, self._full_at = len(segments.MAGIC), SEGMENT_BYTES
        self._old_at_ms = self._wall_ms() + SEGMENT_S * 1000
        _LOG.info("journal segment %s", segment.path.name)

    def _close_segment(self) -> None:
        """A segment that cannot be marked as complete is closed by the supervisor, like a dead writer's."""
        try:
            self._append(segments.frame(segments.CLOSED))
            os.fsync(self._descriptor)
        except OSError:
            _LOG.exception("a journal segment could not be closed")
        finally:
            os.close(self._descriptor)

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
        """Go on in a new segment; while none can be made, in this one. The descriptor in use is always open: the
        number of a closed one may be a caller's connection by now."""
        old, old_size = self._descriptor, self._size
        try:
            self._open(directory)
        except OSError:
            _LOG.exception("no new journal segment could be made")
            self._full_at = self._size + _ROTATE_AGAIN_BYTES
            self._old_at_ms = self._wall_ms() + _ROTATE_AGAIN_S * 1000
            return
        new, new_size = self._descriptor, self._size
        self._descriptor, self._size = old, old_size
        self._close_segment()
        self._descriptor, self._size = new, new_size
        remove_old(directory, self._wall_ms())

    def _plan_sync(self) -> None:
        """One fsync at a time, however slow the disk is."""
        if self._is_dirty and self._sync_due is None and not self._is_syncing:
            self._sync_due = asyncio.get_running_loop().call_later(SYNC_S, self._start_sync)

    def _start_sync(self) -> None:
        self._sync_due = None
        if self._descriptor < 0:
            return
        self._is_dirty, self._is_syncing = False, True
        descriptor = os.dup(self._descriptor)  # a rotation may close ours meanwhile
        syncing = asyncio.get_running_loop().run_in_executor(None, _sync_and_close, descriptor)
        syncing.add_done_callback(self._on_synced)

    def _on_synced(self, syncing: asyncio.Future[None]) -> None:
        self._is_syncing = False
        if not syncing.cancelled() and syncing.exception() is not None:
            _LOG.error("the journal's fsync failed", exc_info=syncing.exception())
        if self._descriptor >= 0:
            self._plan_sync()


def close_orphans(directory: Path, wall_ms: int) -> int:
    """Close the segments of dead API processes: their open requests get an `end` with what was journalled.

    Run by the supervisor when an API process died and at the start. Returns the number of segments closed.
    """
    closed = 0
    before: dict[int, Segment] = {}
    with segments.locked(directory):  # else a segment just made looks like one whose writer is gone
        for segment in segments.list_segments(directory):
            try:
                with segments.hold_orphan(segment) as descriptor:
                    if descriptor is not None and not is_closed(segment):
                        _finish(before.get(segment.worker), segment, descriptor, wall_ms)
                        closed += 1
            except OSError:  # the next one's turn is not its business
                _LOG.exception("journal segment %s could not be closed", segment.path.name)
            before[segment.worker] = segment
    return closed


def is_closed(segment: Segment) -> bool:
    """True when the closing frame is there: nothing will be added."""
    last = segments.frame(segments.CLOSED)
    size = segment.path.stat().st_size
    with segment.path.open("rb") as file:
        file.seek(max(0, size - len(last)))
        return file.read() == last


def remove_old(directory: Path, wall_ms: int) -> None:
    """Delete closed segments after a week: every reader has had its time. The ledger remembers what it settled for
    far longer than that, so a segment that is read again settles nothing twice."""
    for segment in segments.list_segments(directory):
        age_s = wall_ms / 1000 - segment.path.stat().st_mtime
        if age_s > KEEP_CLOSED_S and is_closed(segment):
            segment.path.unlink(missing_ok=True)


def _finish(before: Segment | None, segment: Segment, descriptor: int, wall_ms: int) -> None:
    """`before`: the same API process's last segment, or its predecessor's; requests may have begun there."""
    open_requests: dict[str, Record] = {}
    if before is not None:
        _follow(before, open_requests)
    end = _follow(segment, open_requests)
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


def _follow(segment: Segment, open_requests: dict[str, Record]) -> int:
    """Keep the last record of each request without an end. Returns the offset behind the last whole frame."""
    end = 0
    for payload, end in segments.read_frames(segment.path, 0):  # noqa: B007  # the last offset is the result
        if payload == segments.CLOSED:
            continue
        record = msgspec.json.decode(payload, type=Record)
        if record.kind == "end":
            open_requests.pop(record.engine_request_id, None)
        else:
            open_requests[record.engine_request_id] = record
    return end


def _sync_and_close(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
