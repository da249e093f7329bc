"""A chat's event stream → a response's, in OpenAI's order, numbered from 0.

`feed()` takes what a chat's stream would have sent and gives what is sent instead; comments pass. Items follow each
other in the order in which the engine sends them: one is open at a time, each closed before the next one opens. Words
after calls, which some engines send, are a message of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from gateway.errors import GatewayError
from gateway.wire.responses.answer import (
    Ids,
    Json,
    call_item,
    call_status,
    ended,
    failed,
    message_item,
    reasoning_item,
    response,
)
from gateway.wire.stream import BOUNDARY, object_of, payload_of

__all__ = ["EventWriter"]


class _Item:
    """The output item that is open. `calls`: its number among the calls of the chat; None for text."""

    def __init__(self, kind: str, id: str, call: int | None = None) -> None:
        self.kind = kind
        self.id = id
        self.index = 0
        self.call = call
        self.call_id = self.name = ""
        self.text = ""

    def json(self, status: str) -> Json:
        if self.kind == "function_call":
            return call_item(self.id, self.call_id, self.name, self.text, status)
        if self.kind == "reasoning":
            return reasoning_item(self.id, self.text)
        return message_item(self.id, self.text, None, status)

    @property
    def part(self) -> Json:
        part: Json = self.json("completed")["content"][0]
        return part


class EventWriter:
    def __init__(self, repeated: Mapping[str, Any], request_id: str) -> None:
        self._repeated = repeated
        self._ids = Ids(request_id)
        self._number = 0
        self._created: int | None = None
        self._tail = b""
        self._item: _Item | None = None
        self._output: list[Json] = []
        self._calls = 0
        self._usage: Any = None
        self._finish: Any = None
        self._written: list[bytes] = []

    def feed(self, data: bytes) -> bytes:
        """Any chunking of the same bytes gives the same events."""
        *events, self._tail = BOUNDARY.split(self._tail + data)
        for event in events:
            self._event(event)
        return self._taken()

    def fail(self, error: GatewayError) -> bytes:
        """The last event of a stream that broke."""
        self._begin(0)
        self._end("response.failed", **failed(error))
        return self._taken()

    def _taken(self) -> bytes:
        written, self._written = b"".join(self._written), []
        return written

    def _event(self, event: bytes) -> None:
        payload = payload_of(event)
        if not payload and event.startswith(b":"):
            self._written.append(event + b"\n\n")
        elif payload == b"[DONE]":
            self._begin(0)
            self._close()
            finish = ended(self._finish)
            self._end(f"response.{finish['status']}", **finish)
        elif (chunk := object_of(payload)) is not None:  # of anything else a response could show nothing
            self._chunk(chunk)

    def _chunk(self, chunk: Json) -> None:
        created = chunk.get("created")
        self._begin(created if isinstance(created, int) else 0)
        self._usage = chunk.get("usage") or self._usage
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            delta = choice.get("delta") or {}
            self._text(
                "reasoning", self._ids.reasoning, delta.get("reasoning_content") or delta.get("reasoning")
            )
            self._text("message", self._ids.message, delta.get("content") or delta.get("refusal"))
            for call in delta.get("tool_calls") or ():
                self._call(call)
            self._finish = choice.get("finish_reason") or self._finish

    def _begin(self, created: int) -> None:
        if self._created is None:
            self._created = created
            begun = self._response(status="in_progress")
            self._write("response.created", response=begun)
            self._write("response.in_progress", response=begun)

    def _text(self, kind: str, id: str, text: Any) -> None:
        if not isinstance(text, str) or not text:
            return
        if self._item is None or self._item.kind != kind:
            earlier = sum(item["type"] == kind for item in self._output)
            earlier += self._item is not None and self._item.kind == kind
            self._open(_Item(kind, self._ids.again(id, earlier)))
        item = self._item
        assert item is not None
        item.text += text
        name = "reasoning_text" if kind == "reasoning" else "output_text"
        self._write(f"response.{name}.delta", item, content_index=0, delta=text, **_logprobs(item))

    def _call(self, call: Json) -> None:
        number, function = call.get("index", 0), call.get("function") or {}
        if self._item is None or self._item.call != number:
            item = _Item("function_call", self._ids.call(self._calls), number)
            item.call_id, item.name = call.get("id") or "", function.get("name") or ""
            self._calls += 1
            self._open(item)
        arguments = function.get("arguments")
        if arguments and self._item is not None:
            self._item.text += arguments
            self._write("response.function_call_arguments.delta", self._item, delta=arguments)

    def _open(self, item: _Item) -> None:
        self._close()
        # Closing the one before put it in its place, which makes this one's the next.
        item.index = len(self._output)
        self._item = item
        empty = item.json("in_progress")
        if item.call is None:
            empty["content"] = []
        self._write("response.output_item.added", output_index=item.index, item=empty)
        if item.call is None:
            self._write("response.content_part.added", item, content_index=0, part=item.part)

    def _close(self) -> None:
        item, self._item = self._item, None
        if item is None:
            return
        if item.call is not None:
            named = {"arguments": item.text, "name": item.name}
            self._write("response.function_call_arguments.done", item, **named)
        else:
            name = "reasoning_text" if item.kind == "reasoning" else "output_text"
            self._write(f"response.{name}.done", item, content_index=0, text=item.text, **_logprobs(item))
            self._write("response.content_part.done", item, content_index=0, part=item.part)
        status = ended(self._finish)["status"]
        if item.call is not None:
            status = call_status(item.text, status)
        self._output.append(item.json(status))
        self._write("response.output_item.done", output_index=item.index, item=self._output[-1])

    def _end(self, type: str, **fields: Any) -> None:
        self._write(type, response=self._response(**fields))

    def _response(self, **fields: Any) -> Json:
        created = self._created or 0
        return response(self._repeated, self._ids, created, self._output, self._usage, **fields)

    def _write(self, type: str, of: _Item | None = None, /, **fields: Any) -> None:
        where = {"item_id": of.id, "output_index": of.index} if of is not None else {}
        event = {"type": type, "sequence_number": self._number, **where, **fields}
        self._number += 1
        self._written.append(b"event: " + type.encode() + b"\ndata: " + orjson.dumps(event) + b"\n\n")


def _logprobs(item: _Item) -> Json:
    return {"logprobs": []} if item.kind == "message" else {}
