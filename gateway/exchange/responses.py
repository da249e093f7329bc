"""A sink that turns a chat's answer into a response before it goes on."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.errors import GatewayError
from gateway.exchange.sink import Sink
from gateway.wire.responses import AskedResponse, EventWriter, response_of_chat

__all__ = ["ResponseSink"]


class ResponseSink:
    def __init__(self, sink: Sink, asked: AskedResponse, request_id: str) -> None:
        self._sink = sink
        self._asked = asked
        self._request_id = request_id
        self._events = EventWriter(asked.repeated, request_id)

    async def whole(self, headers: Mapping[str, str], body: bytes) -> None:
        await self._sink.whole(headers, response_of_chat(body, self._asked.repeated, self._request_id))

    async def stream(self, headers: Mapping[str, str], data: bytes, *, last: bool) -> None:
        written = self._events.feed(data)
        if written or last:
            await self._sink.stream(headers, written, last=last)

    def write(self, data: bytes) -> bool:
        """Events are told apart and written anew."""
        return False

    def error_event(self, error: GatewayError) -> bytes:
        """The last event of a stream that has begun and broke."""
        return self._events.fail(error)
