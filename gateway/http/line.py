"""What our own server can do for the edge beyond ASGI: write without waiting, and say at once that the peer has left.

Made by the protocol (protocol.py) for each request, found by the edge in the scope's extensions; under another server
it is not there, and ASGI's messages do the same at the price of a task. It knows nothing of what is said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

__all__ = ["LINE", "HeldHead", "Line"]

LINE = "tollway.line"
"""The extension's name in a scope."""


class HeldHead:
    """Stands in for a request's transport until its answer has begun: the head goes out together with what is written
    right after it, in one packet and for one system call; by itself if nothing is."""

    __slots__ = ("_cycle", "_head", "_loop", "_transport")

    def __init__(self, cycle: RequestResponseCycle, loop: asyncio.AbstractEventLoop) -> None:
        self._cycle = cycle
        self._loop = loop
        self._transport = cycle.transport
        self._head: bytes | None = None

    def write(self, data: bytes) -> None:
        if self._head is None:
            self._head = data
            self._loop.call_soon(self._flush)
        else:
            self._let_go(self._head + data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def _flush(self) -> None:
        if self._head is not None:
            self._let_go(self._head)

    def _let_go(self, data: bytes) -> None:
        self._head, self._cycle.transport = None, self._transport
        self._transport.write(data)


class Line:
    __slots__ = ("_cycle", "_on_gone")

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self._on_gone: Callable[[], None] | None = None

    def write(self, data: bytes) -> bool:
        """More of a chunked body that has begun; what `send` does, if it need not wait. False, and nothing is sent,
        while the peer is slow to read; to one that has left it is nothing, as there."""
        cycle = self._cycle
        assert cycle.chunked_encoding, "a body without a length"
        if cycle.flow.write_paused:
            return False
        if data and not cycle.disconnected:
            cycle.transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        return True

    def take_body(self) -> bytes | None:
        """All of the request's body, if it has come by now; None while some of it is on its way. What was taken is not
        there any more."""
        cycle = self._cycle
        if cycle.more_body or cycle.disconnected:
            return None
        body, cycle.body = bytes(cycle.body), bytearray()
        cycle.flow.resume_reading()
        return body

    def watch(self, on_gone: Callable[[], None]) -> None:
        """`on_gone` is called once if the peer leaves before its answer is complete, at once if it has left."""
        self._on_gone = on_gone
        self._cycle.flow.resume_reading()  # nobody notices on a connection that is not read
        if self._cycle.disconnected:
            self.gone()

    def unwatch(self) -> None:
        self._on_gone = None

    def gone(self) -> None:
        """The protocol says so."""
        on_gone, self._on_gone = self._on_gone, None
        if on_gone is not None:
            on_gone()
