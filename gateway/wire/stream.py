"""Scans an event stream as it passes: finds usage, errors and the end without re-encoding anything else.

`feed()` takes whatever the network gave and returns the bytes to pass on. Whole events that carry nothing we
must read go through untouched; only an event that may hold `usage`, `error` or `[DONE]` is parsed. Any
chunking of the same bytes gives the same result. It knows nothing of tokens' meaning or of money.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from gateway.wire.answer import EngineError, Rename, RenameAny, error_of
from gateway.wire.continuation import Continuation
from gateway.wire.usage import Usage, read_usage

__all__ = ["BOUNDARY", "EventTooLarge", "StreamScanner", "object_of", "payload_of"]

EVENT_BYTES_MAX = 16 * 1024 * 1024
BOUNDARY = re.compile(rb"\r?\n\r?\n")
"""Between two events."""
_NULL_USAGE = re.compile(rb',\s*"usage"\s*:\s*null')


class EventTooLarge(Exception):
    """The engine sent more than `EVENT_BYTES_MAX` without ending the event."""


class StreamScanner:
    """One per upstream attempt. After `done` or `error` nothing more is passed on."""

    def __init__(
        self, hide_usage: bool, rename: Rename | RenameAny | None, continuation: Continuation | None = None
    ) -> None:
        """`continuation`: the engine was asked for token ids; then only whole events are passed on, to the end."""
        self.usage: Usage | None = None
        self.error: EngineError | None = None
        self.done = False
        self.events = 0
        """Data events passed on; without usage the best count of produced tokens there is."""
        self._hide_usage = hide_usage
        self._rename = rename
        self._continuation = continuation
        self._tail = b""
        self._is_over = False

    def feed(self, data: bytes) -> bytes:
        if self._tail:
            data = self._tail + data
            self._tail = b""
        rest = b""
        if self._continuation is not None:
            if not _ends_an_event(data):
                data = self._keep_tail(data)
                rest, self._tail = self._tail, b""
            data = self._continuation.strip(data)
        if b'"usage"' in data or b'"error"' in data or b"[DONE]" in data or self._is_over:
            data = self._slowly(self._keep_tail(data))
        else:
            if not _ends_an_event(data):
                data = self._keep_tail(data)
            self.events += data.count(b"\ndata:") + data.startswith(b"data:")
        if rest:
            self._tail = rest
        return self._rename.apply(data) if self._rename is not None else data

    def detach(self) -> None:
        """Somebody else goes on with the answer: what still comes here is passed on to nobody."""
        if self._continuation is not None:
            self._continuation = Continuation()

    def finish(self) -> bytes:
        """At the end of the stream: an event that was not closed by an empty line still counts."""
        tail, self._tail = self._tail, b""
        if self._continuation is not None:
            return b""  # cut off in the middle: whoever goes on with the answer brings it whole
        if not tail.strip():
            return b"" if self._is_over else tail
        return self.feed(tail + b"\n\n")

    def _keep_tail(self, data: bytes) -> bytes:
        end = 0
        for boundary in BOUNDARY.finditer(data):
            end = boundary.end()
        self._tail = data[end:]
        if len(self._tail) > EVENT_BYTES_MAX:
            raise EventTooLarge
        return data[:end]

    def _slowly(self, data: bytes) -> bytes:
        passed, start = [], 0
        for boundary in BOUNDARY.finditer(data):
            if not self._is_over:
                passed.append(self._event(data[start : boundary.end()]))
            start = boundary.end()
        return b"".join(passed)

    def _event(self, event: bytes) -> bytes:
        payload = payload_of(event)
        if payload == b"[DONE]":
            self.done = self._is_over = True
            return event
        fields = object_of(payload)
        if fields is None:
            self.events += 1 if payload else 0
            return event
        usage = read_usage(fields.get("usage"))
        if usage is not None:
            self.usage = usage
        if fields.get("error") is not None:
            self.error, self._is_over = error_of(fields), True
            return b""
        if fields.get("choices") == [] and usage is not None:
            return b"" if self._hide_usage else event
        self.events += 1
        return self._without_usage(event, fields) if self._hide_usage and "usage" in fields else event

    def _without_usage(self, event: bytes, fields: dict[str, Any]) -> bytes:
        if fields["usage"] is None:
            shorter, found = _NULL_USAGE.subn(b"", event)
            if found == 1:
                return shorter
        del fields["usage"]
        return b"data: " + orjson.dumps(fields) + b"\n\n"


def _ends_an_event(data: bytes) -> bool:
    """At a glance: nothing is left over. Of three line ends the first two close the event, the third begins the next."""
    return data.endswith(b"\n\n") and data[-3:-2] not in (b"\n", b"\r")


def payload_of(event: bytes) -> bytes:
    """The data of an event: its `data:` lines, joined; comments and other fields are none of ours."""
    lines = [line[5:].removeprefix(b" ") for line in event.splitlines() if line.startswith(b"data:")]
    return b"\n".join(lines).strip()


def object_of(payload: bytes) -> dict[str, Any] | None:
    """None when it is no JSON object."""
    if not payload.startswith(b"{"):
        return None
    try:
        fields = orjson.loads(payload)
    except orjson.JSONDecodeError:
        return None
    return fields if isinstance(fields, dict) else None
