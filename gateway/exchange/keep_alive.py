"""Signs of life for a caller whose stream has not begun: SSE comment lines while the prompt is long in the making.

The first one sends the answer's headers: from then on a failure can only be an event of the stream. It knows neither
when silence is too long nor what an answer is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from gateway.exchange.sink import Sink

__all__ = ["COMMENT", "KeepAlive"]

COMMENT = b": keep-alive\n\n"
CONTENT_TYPE = "text/event-stream; charset=utf-8"


class KeepAlive:
    """Of one request. `pulse()` from a timer; `rest()` before anybody else writes to the sink, `stop()` at the end."""

    __slots__ = ("_headers", "_sending", "_sink", "pulses")

    def __init__(self, sink: Sink, headers: Mapping[str, str]) -> None:
        self._sink = sink
        self._headers = {"content-type": CONTENT_TYPE, **headers}
        self._sending: asyncio.Task[None] | None = None
        self.pulses = 0

    def pulse(self) -> None:
        """Nothing while the last one still waits for the caller to read."""
        if self._sending is None or self._sending.done():
            self.pulses += 1
            self._sending = asyncio.create_task(self._sink.stream(self._headers, COMMENT, last=False))

    async def rest(self) -> None:
        """No comment is being written when this returns."""
        if self._sending is not None and not self._sending.done():
            await asyncio.wait((self._sending,))

    def stop(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
