"""One HTTP request and its answer over bare ASGI, with the headers that every answer has.

Reads the body once and within a limit, writes one answer or one stream, and knows whether anything was sent.
It does not know what is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, MutableMapping
from types import TracebackType
from typing import Any

from gateway.errors import BodyTooLarge, GatewayError, InvalidRequest
from gateway.http.errors import error_event
from gateway.http.line import LINE, Line

__all__ = ["Call", "Disconnect", "Message", "Receive", "Scope", "Send"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

BODY_TIMEOUT_S = 60.0
UPLOAD_TIMEOUT_S = 3600.0


class ClientLeft(Exception):
    """The connection ended before the body had come."""


class Call:
    """`tenant`, `model` and `endpoint` are filled in as they become known, for logs and metrics."""

    __slots__ = (
        "_clock",
        "_receive",
        "_send",
        "endpoint",
        "error_event",
        "first_data_at",
        "is_stream",
        "line",
        "model",
        "request_id",
        "scope",
        "started",
        "status",
        "tenant",
    )

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, request_id: str, clock: Callable[[], float]
    ) -> None:
        self.scope = scope
        self.request_id = request_id
        self.started = clock()
        self.status: int | None = None
        """Of the answer, once its headers are sent."""
        self.is_stream = False
        self.tenant = ""
        self.model = ""
        self.endpoint = ""
        self.first_data_at: float | None = None
        self.error_event: Callable[[GatewayError], bytes] = error_event
        """What ends a stream that broke."""
        self.line: Line | None = scope.get("extensions", {}).get(LINE)
        self._clock = clock
        self._receive = receive
        self._send = send

    @property
    def method(self) -> str:
        return str(self.scope["method"])

    @property
    def path(self) -> str:
        return str(self.scope["path"])

    @property
    def peer(self) -> str | None:
        client = self.scope.get("client")
        return client[0] if client else None

    def header(self, name: bytes) -> str | None:
        """By its lower-case name; the first one if it was sent more than once."""
        for key, value in self.scope["headers"]:
            if key == name:
                return str(value, "latin-1")
        return None

    def headers(self, name: bytes) -> list[str]:
        """Every value of a header, by its lower-case name, in the order they were sent."""
        return [str(value, "latin-1") for key, value in self.scope["headers"] if key == name]

    async def body(self, limit_bytes: int) -> bytes:
        declared = self.header(b"content-length")
        if declared is not None and declared.isdecimal() and int(declared) > limit_bytes:
            raise BodyTooLarge(limit_bytes)
        here = self.line.take_body() if self.line is not None else None
        if here is not None:  # which is the rule; nothing has to be waited for
            if len(here) > limit_bytes:
                raise BodyTooLarge(limit_bytes)
            return here
        parts, size = [], 0
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                while True:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        raise ClientLeft
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > limit_bytes:
                        raise BodyTooLarge(limit_bytes)
                    if not message.get("more_body"):
                        return parts[0] if len(parts) == 1 else b"".join(parts)
        except TimeoutError:
            raise InvalidRequest("The request body did not arrive in time.") from None

    async def body_pieces(self, limit_bytes: int) -> AsyncIterator[bytes]:
        """For bodies that no memory should hold. Each piece may take `BODY_TIMEOUT_S`, all of them `UPLOAD_TIMEOUT_S`."""
        size = 0
        ends_at = self._clock() + UPLOAD_TIMEOUT_S
        while True:
            try:
                async with asyncio.timeout(BODY_TIMEOUT_S):
                    message = await self._receive()
            except TimeoutError:
                raise InvalidRequest("The request body did not arrive in time.") from None
            if message["type"] == "http.disconnect":
                raise ClientLeft
            piece = message.get("body", b"")
            size += len(piece)
            if size > limit_bytes:
                raise BodyTooLarge(limit_bytes)
            if self._clock() > ends_at:
                raise InvalidRequest("The request body did not arrive in time.")
            yield piece
            if not message.get("more_body"):
                return

    async def answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        await self._start(status, headers, (("content-length", str(len(body))),))
        await self._send({"type": "http.response.body", "body": body})

    async def pieces(
        self, headers: Mapping[str, str], size: int, first: bytes, following: AsyncIterator[bytes]
    ) -> None:
        """An answer of `size` bytes as they come. If they end early the connection is cut, since nothing else could say
        so any more."""
        await self._start(200, headers, (("content-length", str(size)),))
        await self._send({"type": "http.response.body", "body": first, "more_body": True})
        async for piece in following:
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        await self._send({"type": "http.response.body", "body": b""})

    # The sink of the request path.

    async def whole(self, headers: Mapping[str, str], body: bytes) -> None:
        await self.answer(200, headers, body)

    async def stream(self, headers: Mapping[str, str], data: bytes, *, last: bool) -> None:
        if self.status is None:
            self.is_stream = True
            await self._start(200, headers, _STREAM_HEADERS)
        if self.first_data_at is None and not data.startswith(b":"):  # a comment is no data
            self.first_data_at = self._clock()
        await self._send({"type": "http.response.body", "body": data, "more_body": not last})

    def write(self, data: bytes) -> bool:
        return self.line is not None and self.first_data_at is not None and self.line.write(data)

    # A mounted application.

    async def receive(self) -> Message:
        return await self._receive()

    async def send(self, message: Message) -> None:
        """Adds the headers that every answer has to an answer that somebody else made."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message.get("headers", ()), *self._own_headers()]}
        await self._send(message)

    async def _start(self, status: int, headers: Mapping[str, str], extra: Iterable[tuple[str, str]]) -> None:
        assert self.status is None, "one answer for one request"
        self.status = status
        encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        encoded += [(name.encode("latin-1"), value.encode("latin-1")) for name, value in extra]
        encoded += self._own_headers()
        await self._send({"type": "http.response.start", "status": status, "headers": encoded})

    def _own_headers(self) -> list[tuple[bytes, bytes]]:
        processing_ms = max(0, round((self._clock() - self.started) * 1000))
        return [
            (b"x-request-id", self.request_id.encode()),
            (b"openai-processing-ms", str(processing_ms).encode()),
        ]


class Disconnect:
    """`async with Disconnect(call):` cancels the block when the client goes; the cancellation ends there.

    Costs one small task where the server has no `Line`. `happened` tells afterwards.
    """

    __slots__ = ("_call", "_task", "_watcher", "happened")

    def __init__(self, call: Call) -> None:
        self._call = call
        self._watcher: asyncio.Task[None] | None = None
        self.happened = False

    async def __aenter__(self) -> Disconnect:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        if self._call.line is not None:
            self._call.line.watch(self._gone)
        else:
            self._watcher = asyncio.create_task(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> bool:
        if self._call.line is not None:
            self._call.line.unwatch()
        elif self._watcher is not None:
            self._watcher.cancel()
        if not self.happened:
            return False
        self._task.uncancel()
        return kind is not None and issubclass(kind, asyncio.CancelledError)

    async def _watch(self) -> None:
        while (await self._call.receive())["type"] != "http.disconnect":
            pass
        self._gone()

    def _gone(self) -> None:
        self.happened = True
        self._task.cancel()


_STREAM_HEADERS = (("cache-control", "no-cache"), ("x-accel-buffering", "no"))
