"""One HTTP/1.1 connection to an engine, and the answer that is being read from it.

Place: under the client (client.py), which says who is asked and keeps what is free. The bytes of a body can be asked for
(`read_some`), or be handed over as they arrive without waking anybody (`pass_on`), which is what makes a stream cheap.
It knows no deadlines, and nothing of what is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import httptools

__all__ = ["Connection", "ConnectionLost", "StaleConnection", "UpstreamError", "UpstreamReply"]

READ_BUFFER_BYTES = 64 * 1024
"""Of a body that nobody reads; beyond, the engine has to wait."""
HEAD_BYTES_MAX = 64 * 1024
WHOLE_BODY_BYTES_MAX = 64 * 1024 * 1024
RUN_OUT_S = 1.0


class UpstreamError(Exception):
    """The engine could not be reached, or the connection to it failed."""


class ConnectionLost(UpstreamError):
    """The connection ended where it should not have; the engine may have worked on the request."""


class StaleConnection(ConnectionLost):
    """A kept connection ended before one byte was received: most likely the server had closed it for idleness."""


class UpstreamReply:
    """An answer, from the moment its headers are there. Once its body has been received the connection is free again;
    if nobody wants the rest, `run_out()` or `close()` says so."""

    __slots__ = (
        "_connection",
        "_error",
        "_parts",
        "_size",
        "_take",
        "_waiter",
        "headers",
        "is_at_end",
        "status",
    )

    def __init__(self, connection: Connection) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        """By lower-case name; several of one name are a list."""
        self.is_at_end = False
        """All of the body has been received."""
        self._connection: Connection | None = connection
        self._parts: list[bytes] = []
        self._size = 0
        self._error: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._take: Callable[[bytes], bool] | None = None

    @property
    def is_stream(self) -> bool:
        return self.headers.get("content-type", "").startswith("text/event-stream")

    @property
    def is_paused(self) -> bool:
        """The engine has to wait for a reader."""
        return self._connection is not None and self._connection.is_paused

    async def read_some(self) -> bytes:
        """The next bytes as the network gave them; empty at the end. Raises ConnectionLost."""
        if not self._parts:
            await self._wait()
            if self._error is not None and not self._parts:
                raise self._error
        return self._taken()

    async def read_whole(self) -> bytes:
        parts, size = [], 0
        while part := await self.read_some():
            size += len(part)
            if size > WHOLE_BODY_BYTES_MAX:
                self.close()
                raise ConnectionLost(f"more than {WHOLE_BODY_BYTES_MAX} bytes in one answer")
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def pass_on(self, take: Callable[[bytes], bool]) -> bool:
        """Gives `take` the bytes as they arrive, what arrives together in one piece, until it says False. True then;
        False when the body has ended. Raises ConnectionLost, or what `take` raised."""
        while self._parts:
            if not take(self._taken()):
                return True
        self._take = take
        try:
            await self._wait()
            if self._has_stopped:  # what it has comes before any error
                return True
        finally:
            self._take = None
        if self._error is not None:
            raise self._error
        return False

    def run_out(self) -> None:
        """Nobody reads the rest, which should be short: the connection is used again if it ends soon."""
        if self._connection is not None:
            self._take = _discard
            self._taken()
            asyncio.get_running_loop().call_later(RUN_OUT_S, self.close)

    def close(self) -> None:
        """Drops the connection, unless it is free already; to an engine that is the sign that nobody listens any more."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self.fail(ConnectionLost("closed by us"))
            connection.drop()

    # The connection says:

    def received(self, data: bytes) -> None:
        """All that arrived together."""
        if self._take is None:
            self._parts.append(data)
            self._size += len(data)
            self._wake()
            if self._size > READ_BUFFER_BYTES and self._connection is not None:
                self._connection.pause()
            return
        try:
            goes_on = self._take(data)
        except BaseException as error:
            self.fail(error)
            raise
        if not goes_on:
            self._take = None
            self._wake()

    def end(self) -> None:
        self.is_at_end, self._connection = True, None
        self._wake()

    def fail(self, error: BaseException) -> None:
        """Whoever waits, or asks next, gets it; what was received before comes first."""
        self._error, self._connection = self._error or error, None
        self._wake()

    @property
    def _has_stopped(self) -> bool:
        return self._take is None

    async def _wait(self) -> None:
        """Until there is something to read, or nothing will be any more."""
        if self._error is None and not self.is_at_end:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _taken(self) -> bytes:
        parts = self._parts
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        self._size = 0
        if self._connection is not None:
            self._connection.resume()
        return data


class Connection(asyncio.Protocol):
    """Carries one request at a time. `on_free` is told when it may carry another, `on_lost` when it never will."""

    def __init__(self, on_free: Callable[[Connection], None], on_lost: Callable[[Connection], None]) -> None:
        self.free_since = 0.0
        """The loop's time; the pool's to set."""
        self._on_free = on_free
        self._on_lost = on_lost
        self._bodies: list[bytes] = []
        self.on_body = self._bodies.append
        """The parser's to call: a piece of a body costs no call of ours, only what arrived together does."""
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._reply: UpstreamReply | None = None
        self._head: asyncio.Future[None] | None = None
        self._head_bytes = 0
        self._is_used = False
        """It has carried a request before this one."""
        self._has_heard = False
        """Something of the present answer has come."""
        self._is_complete = False
        self.is_paused = False
        self._may_stay = False

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, head: bytes, body: bytes) -> UpstreamReply:
        """Returns when the answer's headers are there. Raises ConnectionLost, StaleConnection if nothing was wrong but
        that the connection was old."""
        assert self._transport is not None, "connected first"
        assert self._reply is None, "one request at a time"
        self._head = asyncio.get_running_loop().create_future()
        self._reply = reply = UpstreamReply(self)
        self._head_bytes, self._has_heard, self._is_complete = 0, False, False
        self._transport.writelines((head, body))
        try:
            await self._head
        except BaseException:
            reply.close()
            raise
        return reply

    def drop(self) -> None:
        self._reply = None
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        if not self.is_paused and self._transport is not None:
            self._transport.pause_reading()
            self.is_paused = True

    def resume(self) -> None:
        if self.is_paused and self._transport is not None:
            self._transport.resume_reading()
            self.is_paused = False

    # asyncio says:

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        reply, bodies, self._has_heard = self._reply, self._bodies, True
        broken: ConnectionLost | None = None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            broken = ConnectionLost(f"no HTTP answer: {error}")
        if bodies:
            body = bodies[0] if len(bodies) == 1 else b"".join(bodies)
            bodies.clear()
            if reply is not None:
                reply.received(body)
        if broken is not None:
            self._fail(broken)
        elif reply is not None and not reply.status:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self._fail(ConnectionLost("too large a head"))
        elif reply is not None and self._is_complete:
            self._complete(reply)

    def connection_lost(self, error: Exception | None) -> None:
        reply = self._reply
        if reply is not None and error is None and reply.status and _ends_with_connection(reply):
            self._complete(reply)
        kind = StaleConnection if self._is_used and not self._has_heard else ConnectionLost
        self._fail(kind(str(error or "closed by the engine")))
        self._on_lost(self)

    # The parser says:

    def on_message_begin(self) -> None:
        if self._reply is None or self._is_complete:
            raise ConnectionLost("an answer that nobody asked for")

    def on_header(self, name: bytes, value: bytes) -> None:
        assert self._reply is not None, "within a message"
        if self._reply.status:
            return  # a trailer, which nobody reads
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers = self._reply.headers
        headers[key] = f"{headers[key]}, {text}" if key in headers else text

    def on_headers_complete(self) -> None:
        assert self._reply is not None, "within a message"
        assert self._head is not None, "which was asked for"
        status = self._parser.get_status_code()
        if status < 200:
            self._reply.headers.clear()  # a word in between: the answer is still to come
            return
        self._reply.status = status
        if not self._head.done():
            self._head.set_result(None)

    def on_message_complete(self) -> None:
        if self._reply is not None and self._reply.status:
            self._is_complete = True
            self._may_stay = self._parser.should_keep_alive()

    def _complete(self, reply: UpstreamReply) -> None:
        """Free for another request, unless somebody said otherwise or the engine did not wait for all of this one."""
        assert self._transport is not None
        self._reply, self._is_used = None, True
        reply.end()
        self.resume()
        if self._may_stay and self.is_open and not self._transport.get_write_buffer_size():
            self._on_free(self)
        else:
            self._transport.close()

    def _fail(self, error: ConnectionLost) -> None:
        reply, self._reply = self._reply, None
        if reply is not None:
            reply.fail(error)
        if self._head is not None and not self._head.done():
            self._head.set_exception(error)
        if self._transport is not None:
            self._transport.abort()


def _ends_with_connection(reply: UpstreamReply) -> bool:
    """Nothing in its headers says how long it is."""
    return "content-length" not in reply.headers and "transfer-encoding" not in reply.headers


def _discard(data: bytes) -> bool:
    return True
