"""Reads the journals of all API processes of a directory, past and present, page by page.

The cursor is opaque to callers and holds, per segment, how far it was read; segments that are closed and read
to the end are dropped from it. A record may appear twice only if the caller asks twice with the same cursor.
Runs in a thread: it blocks on files. Knows no HTTP.
"""

from __future__ import annotations

import base64
import binascii
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from engine.server import segments
from engine.server.journal import Record, is_closed
from engine.server.segments import Segment

_LOG = logging.getLogger(__name__)


class CursorError(ValueError):
    """The cursor was not made by this reader."""


_Count = Annotated[int, msgspec.Meta(ge=0, le=2**48)]
_MAX_OPEN = 4096
"""Unfinished segments that a cursor may name; each API process has one or two."""


class _Cursor(msgspec.Struct):
    """Segments up to `done` are finished; the others are read up to their offset in `at`."""

    done: _Count = 0
    at: Annotated[dict[_Count, _Count], msgspec.Meta(max_length=_MAX_OPEN)] = {}


@dataclass(frozen=True, slots=True)
class Page:
    records: list[Record]
    cursor: str
    complete: bool
    """No record was left when this page was read."""


def read_page(directory: Path, after: str, limit: int, request_id: str | None = None) -> Page:
    """Up to `limit` records behind the cursor, in the order of each segment, older segments first."""
    cursor = _decode(after)
    found = [segment for segment in segments.list_segments(directory) if segment.serial > cursor.done]
    # A request's own records are few among very many: most are passed over without being parsed.
    needle = b"" if request_id is None else msgspec.json.encode(request_id)
    records: list[Record] = []
    for segment in found:
        offset = cursor.at.get(segment.serial, 0)
        try:
            if is_closed(segment) and not segments.holds(segment.path, offset, needle):
                cursor.at[segment.serial] = segment.path.stat().st_size
                continue
            for payload, end in segments.read_frames(segment.path, offset):
                if needle in payload and payload != segments.CLOSED:
                    record = _record(payload, segment)
                    if record is not None and request_id in (None, record.request_id):
                        if len(records) == limit:
                            return Page(records, _encode(cursor), complete=False)
                        records.append(record)
                cursor.at[segment.serial] = end
        except FileNotFoundError:  # its week was over just now
            continue
    _forget_finished(cursor, found)
    return Page(records, _encode(cursor), complete=True)


def _record(payload: bytes, segment: Segment) -> Record | None:
    """None for what another version wrote: it must not stand before all that comes after it."""
    try:
        return msgspec.json.decode(payload, type=Record)
    except msgspec.MsgspecError:
        _LOG.error("a record of journal segment %s is not understood", segment.path.name)
        return None


def _forget_finished(cursor: _Cursor, found: list[Segment]) -> None:
    """Closed segments that were read to the end need no entry once nothing older is open."""
    for segment in found:
        if not _is_finished(segment, cursor.at.get(segment.serial, 0)):
            break
        cursor.done = segment.serial
    alive = {segment.serial for segment in found if segment.serial > cursor.done}
    cursor.at = {serial: offset for serial, offset in cursor.at.items() if serial in alive}


def _is_finished(segment: Segment, offset: int) -> bool:
    try:
        return offset >= segment.path.stat().st_size and is_closed(segment)
    except FileNotFoundError:
        return True


def _encode(cursor: _Cursor) -> str:
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(cursor)).decode().rstrip("=")


def _decode(text: str) -> _Cursor:
    if not text:
        return _Cursor()
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.msgpack.decode(raw, type=_Cursor)
    except (binascii.Error, msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise CursorError("the cursor was not made by this server") from error
