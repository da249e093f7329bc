"""One HTTP request and its answer, on plain ASGI: headers, a bounded body, one answer or one event stream.

Kept below any web framework because the stream path pays for every layer on every token. Knows no routes and no
authentication.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from engine.server.errors import INVALID_REQUEST, ApiError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MAX_BODY_BYTES = 32 << 20
JSON = "application/json"
EVENTS = "text/event-stream; charset=utf-8"


class Exchange:
    """Used by one task, beside the watcher for the disconnect."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self._query: bytes = scope["query_string"]
        self._headers = dict(reversed(scope["headers"]))
        self._receive = receive
        self._send = send
        self.reply_headers: dict[str, str] = {}
        """Headers of the answer, whatever it will be."""
        self.started = False
        self.disconnected = False

    def header(self, name: str) -> str | None:
        value: bytes | None = self._headers.get(name.encode())
        return None if value is None else value.decode("latin-1")

    def query(self) -> dict[str, str]:
        """Of a repeated name the last value. Blank values are there too: who writes `limit=` meant something."""
        found = parse_qs(self._query.decode("latin-1"), keep_blank_values=True)
        return {name: values[-1] for name, values in found.items()}

    def name_ignored(self, fields: Sequence[str]) -> None:
        """Tell the caller which fields of the body had no effect. Foreign names are whatever the caller wrote."""
        names = [name[:64] for name in fields[:32] if name.isascii() and name.isprintable()]
        self.reply_headers["x-tollway-ignored"] = ", ".join(names)

    async def body(self) -> bytes:
        """The whole body. Raises 413 when it is too large, 415 when it would have to be unpacked first."""
        encoding = (self.header("content-encoding") or "identity").strip().lower()
        if encoding != "identity":
            raise _encoded(encoding)
        chunks: list[bytes] = []
        announced = self.header("content-length") or "0"
        size = int(announced) if announced.isascii() and announced.isdigit() else 0
        if size > MAX_BODY_BYTES:
            raise _too_large()
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self.disconnected = True
                raise ConnectionResetError("the caller went away before the body was complete")
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > MAX_BODY_BYTES:
                raise _too_large()
            if not message.get("more_body", False):
                return b"".join(chunks)

    async def watch(self, on_disconnect: Callable[[], None]) -> None:
        """Until the caller goes away. Call after the body was read; cancel when the answer is complete."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.disconnected = True
        on_disconnect()

    async def reply(
        self, status: int, body: bytes, *, kind: str = JSON, headers: Mapping[str, str] | None = None
    ) -> None:
        """The whole answer."""
        length = {"content-length": str(len(body))}
        await self._start(status, {"content-type": kind, **length, **(headers or {})})
        await self._send({"type": "http.response.body", "body": body})

    async def start_events(self) -> None:
        await self._start(
            200, {"content-type": EVENTS, "cache-control": "no-cache", "x-accel-buffering": "no"}
        )

    async def send_events(self, data: bytes, *, last: bool = False) -> None:
        """One write. Waits while the caller's connection is congested."""
        await self._send({"type": "http.response.body", "body": data, "more_body": not last})

    async def _start(self, status: int, headers: Mapping[str, str]) -> None:
        assert not self.started, "a request is answered once"
        self.started = True
        pairs = {**self.reply_headers, **headers}
        encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": encoded})


def _too_large() -> ApiError:
    return ApiError(413, INVALID_REQUEST, f"The body is larger than {MAX_BODY_BYTES} bytes.")


def _encoded(encoding: str) -> ApiError:
    shown = encoding[:40] if encoding.isascii() and encoding.isprintable() else "something"
    message = f"The body is encoded with {shown!r}; send it as it is, without a content-encoding."
    return ApiError(415, INVALID_REQUEST, message, headers={"accept-encoding": "identity"})


def watch_in_background(exchange: Exchange, on_disconnect: Callable[[], None]) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(exchange.watch(on_disconnect))
