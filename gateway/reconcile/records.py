"""Journal records as engines write them, one at a time: a record that nobody understands costs only itself.

Both ways to a journal (HTTP, volume) read through here. Knows the record's document; not pages, cursors or files.
"""

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gateway.ids import RequestId
from gateway.money import TOKENS_MAX
from gateway.reconcile.journal import JournalRecord, UnreadableRecord

__all__ = ["read_records"]

_EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN_CHARS_MAX = 2000

_Tokens = Annotated[int, Meta(ge=0, le=TOKENS_MAX)]
_Duration_ms = Annotated[float, Meta(ge=0, le=10**12)]
_Name = Annotated[str, Meta(max_length=200, pattern=r"^[\x20-\x7e]*$")]


class _Record(msgspec.Struct):
    """What does not apply to a record's kind is null. The bounds are those of the tables and of money.py."""

    kind: Literal["start", "progress", "end"]
    at_ms: Annotated[int, Meta(ge=0, le=253_402_300_799_999)]
    request_id: _Name | None = None
    attempt: Annotated[int, Meta(ge=0, le=32_767)] | None = None
    epoch: _Name | None = None
    prompt_tokens: _Tokens | None = None
    cached_tokens: _Tokens | None = None
    completion_tokens: _Tokens | None = None
    overrun_tokens: _Tokens | None = None
    resumed_from: Annotated[int, Meta(ge=0, le=32_767)] | None = None
    finish_reason: _Name | None = None
    queue_ms: _Duration_ms | None = None
    ttft_ms: _Duration_ms | None = None
    e2e_ms: _Duration_ms | None = None


def read_records(
    documents: Iterable[bytes],
) -> tuple[tuple[JournalRecord, ...], tuple[UnreadableRecord, ...]]:
    """The records that a gateway asked for, and the documents that could not be read. Callers without a gateway's
    request id are nobody's business here."""
    records, unreadable = [], []
    for document in documents:
        try:
            found = msgspec.json.decode(document, type=_Record)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            unreadable.append(_unreadable(document, error))
        else:
            if found.request_id is not None:
                records.append(_record(found, found.request_id))
    return tuple(records), tuple(unreadable)


def _unreadable(document: bytes, error: Exception) -> UnreadableRecord:
    shown = document[:_SHOWN_CHARS_MAX].decode(errors="replace").replace("\0", "�")
    return UnreadableRecord(hashlib.sha256(document).hexdigest(), shown, str(error).replace("\0", "�"))


def _record(one: _Record, request_id: str) -> JournalRecord:
    prompt = one.prompt_tokens or 0
    return JournalRecord(
        kind=one.kind,
        request_id=RequestId(request_id),
        attempt=one.attempt or 0,
        epoch=one.epoch or "",
        at=_EPOCH_START + timedelta(milliseconds=one.at_ms),
        prompt_tokens=prompt,
        cached_tokens=min(one.cached_tokens or 0, prompt),
        completion_tokens=one.completion_tokens or 0,
        overrun_tokens=one.overrun_tokens or 0,
        resumed_from=one.resumed_from,
        finish_reason=one.finish_reason,
        queue_ms=_whole(one.queue_ms),
        ttft_ms=_whole(one.ttft_ms),
        e2e_ms=_whole(one.e2e_ms),
    )


def _whole(milliseconds: float | None) -> int | None:
    return None if milliseconds is None else round(milliseconds)
