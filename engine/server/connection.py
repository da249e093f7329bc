"""One caller's connection: uvicorn's HTTP/1.1 protocol with the bounds that it leaves to a proxy.

A request must arrive in time and in size, an answer must be read in time, and only so many connections are held;
whoever breaks a bound is cut off, which the request on that connection sees as an ordinary disconnect. What is no
HTTP at all is answered in the shape of every other error. Knows no routes.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from engine.server.errors import INVALID_REQUEST, ApiError, overloaded
from engine.server.exchange import MAX_BODY_BYTES

_LOG = logging.getLogger(__name__)

REQUEST_S = 120.0
"""From the first byte of a request, or from the connection, to the last byte of its body."""
STALL_S = 60.0
"""How long a full send buffer may take to drain to its low-water mark."""
HEAD_BYTES = 64 << 10
MESSAGE_BYTES = 2 * MAX_BODY_BYTES
"""With the framing of chunks, and what follows them."""
MAX_CONNECTIONS = 16_384
_OTHER_FILES = 256
"""Descriptors that are not connections."""
_OPTIONS = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 60_000))
"""What the kernel does about callers that vanished without a word, or keep a window shut for ever."""


class Connection(HttpToolsProtocol):
    """Made by uvicorn for every connection."""

    def __init__(self, *, max_connections: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._max_connections = max_connections
        self._arrival: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None
        self._num_bytes = 0
        """Of the message that is arriving."""
        self._num_head_bytes = 0
        """Of these, what its target and its headers hold, so far."""
        self._in_head = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        if len(self.connections) > self._max_connections:
            self._refuse(overloaded("Too many connections.", None))
        else:
            self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        _cancel(self._arrival)
        _cancel(self._stall)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._num_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_head and self._num_bytes > HEAD_BYTES:
            self._refuse(_head_too_large())
        elif self._num_bytes > MESSAGE_BYTES:
            self._cut("it sends without an end")

    # What the parser reports

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._num_bytes, self._num_head_bytes = True, 0, 0
        self._expect_request()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._measure(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # what stands behind a body in chunks was not there when the request was looked at
            super().on_header(name, value)
        self._measure(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        _cancel(self._arrival)
        self._num_bytes = 0
        super().on_message_complete()

    # What the transport reports

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall = self.loop.call_later(STALL_S, self._cut, "it does not read its answer")

    def resume_writing(self) -> None:
        _cancel(self._stall)
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        too_large = self._num_head_bytes > HEAD_BYTES
        self._refuse(_head_too_large() if too_large else ApiError(400, INVALID_REQUEST, msg))

    def _measure(self, *parts: bytes) -> None:
        """A head may come whole, in one piece. What is raised here ends the parser, as what is no HTTP does."""
        self._num_head_bytes += sum(map(len, parts))
        if self._num_head_bytes > HEAD_BYTES:
            raise ValueError("the headers are too large")

    def _expect_request(self) -> None:
        _cancel(self._arrival)
        self._arrival = self.loop.call_later(REQUEST_S, self._request_is_late)

    def _request_is_late(self) -> None:
        if self._is_answering:  # the request before it; until then this one may wait
            self._expect_request()
        else:
            self._cut("its request does not arrive")

    @property
    def _is_answering(self) -> bool:
        cycle = self.cycle
        return cycle is not None and not cycle.more_body and not cycle.response_complete

    def _cut(self, why: str) -> None:
        """At once: closing would wait for what the caller does not read."""
        _LOG.warning("cutting off %s: %s", self.client, why)
        self.transport.abort()

    def _refuse(self, error: ApiError) -> None:
        # To the request before it: a second answer would be taken for a part of the first.
        if self._is_answering:
            return self._cut(error.message)
        body = error.body()
        head = {"content-type": "application/json", "connection": "close", **error.headers}
        lines = [f"{name}: {value}\r\n".encode() for name, value in head.items()]
        length = b"content-length: %d\r\n\r\n" % len(body)
        self.transport.write(b"".join([STATUS_LINE[error.status], *lines, length, body]))
        self.transport.close()


def bounded_connections() -> Callable[..., Connection]:
    """The protocol for uvicorn. Raises this process's file limit as far as it may: each connection is a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + _OTHER_FILES
    limit = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return partial(Connection, max_connections=max(1, limit - _OTHER_FILES))


def watch_callers(listener: socket.socket) -> None:
    """Let the kernel notice callers that are gone; connections inherit this from their listener."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _OPTIONS:
        if hasattr(socket, name):
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _head_too_large() -> ApiError:
    return ApiError(431, INVALID_REQUEST, f"The headers are larger than {HEAD_BYTES} bytes.")


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
