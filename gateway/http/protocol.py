"""The server's reading of requests, with a bound on what it reads before the application is asked.

Place: between the socket and the application. Uvicorn's protocol keeps whatever a peer calls a header, and waits for
the end of a head as long as the peer likes. Bodies are bounded by who reads them (`call.py`). Knows no route.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway.errors import ClientError
from gateway.http.errors import render_error
from gateway.http.line import LINE, HeldHead, Line

__all__ = ["HEAD_BYTES_MAX", "HEAD_TIMEOUT_S", "BoundedProtocol"]

HEAD_BYTES_MAX = 64 * 1024
"""Of the request line and all headers together. A key, a trace and a proxy's additions are a few thousand."""

HEAD_TIMEOUT_S = 30.0
"""From the connection, or from the end of the time that it may idle between requests, to the last header."""


class _TooLarge(Exception):
    """Ends the parser's reading."""


class BoundedProtocol(HttpToolsProtocol):
    """What is no part of a body counts: heads, and trailers too, which nobody reads."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._unread = 0
        self._head_bytes = 0
        self._is_trailer = False
        self._head_deadline: asyncio.TimerHandle | None = None
        self._line: Line | None = None
        """Of the request that came last."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._await_head(HEAD_TIMEOUT_S)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)
        if self._line is not None and self.cycle.disconnected:
            self._line.gone()

    def data_received(self, data: bytes) -> None:
        self._unread += len(data)
        super().data_received(data)
        if self._unread > HEAD_BYTES_MAX and not self.transport.is_closing():
            self._refuse(431)

    def on_message_begin(self) -> None:
        self._unread = self._head_bytes = 0
        self._is_trailer = False
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        if not self._is_trailer:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._unread = 0
        self._is_trailer = True
        self._stop_waiting()
        super().on_headers_complete()
        self.cycle.transport = HeldHead(self.cycle, self.loop)  # type: ignore[assignment]  # all of it that is used
        self._line = Line(self.cycle)
        self.scope["extensions"] = {LINE: self._line}  # type: ignore[dict-item]  # theirs are JSON

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    def on_response_complete(self) -> None:
        is_last = not self.pipeline
        super().on_response_complete()
        if is_last and not self.transport.is_closing():
            self._await_head(self.timeout_keep_alive + HEAD_TIMEOUT_S)

    def send_400_response(self, msg: str) -> None:
        """In the words and the shape of every other error."""
        self._refuse(431 if self._head_bytes > HEAD_BYTES_MAX else 400)

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > HEAD_BYTES_MAX:
            raise _TooLarge

    def _refuse(self, status: int) -> None:
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.close()  # in the middle of an answer nothing else can be said
            return
        message = "The request's headers are too large." if status == 431 else "Invalid HTTP request."
        _, headers, body = render_error(ClientError(message, status=status))
        headers |= {"content-length": str(len(body)), "connection": "close"}
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *(f"{k}: {v}" for k, v in headers.items())]
        self.transport.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        self.transport.close()

    def _await_head(self, seconds: float) -> None:
        self._stop_waiting()
        self._head_deadline = self.loop.call_later(seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._head_deadline is not None:
            self._head_deadline.cancel()
            self._head_deadline = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
