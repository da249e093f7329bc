"""Streams of events, in any chunking, that the SDK's own types accept."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from gateway.errors import EngineFailed
from gateway.wire.responses import EventWriter, parse_response
from tests.fakes import replies

REPEATED = parse_response(b'{"model": "m", "input": "x"}').repeated
HEAD = {"id": "c", "created": 7, "model": "m"}
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    return replies.sse({**HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def call(index: int, arguments: str, **named: Any) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, **named, "function": {"arguments": arguments, **named}}]}


SENT = (
    chunk({"role": "assistant", "content": ""})
    + chunk({"reasoning_content": "h"})
    + chunk({"content": "a"})
    + b": still here\n\n"
    + chunk({"content": "b\n\nc"})
    + chunk(call(0, "{", id="call_1", name="f"))
    + chunk(call(0, "}"))
    + chunk(call(1, "{}", id="call_2", name="g"))
    + chunk({}, "tool_calls")
    + replies.sse({**HEAD, "choices": [], "usage": replies.Usage(5, 7, 2).json()})
    + replies.DONE
)


def events_of(raw: bytes) -> list[dict[str, Any]]:
    found = []
    for event in raw.split(b"\n\n"):
        if event.startswith(b"event: "):
            name, data = event.split(b"\ndata: ")
            found.append(json.loads(data))
            assert found[-1]["type"] == name.removeprefix(b"event: ").decode()
    return found


def written(*pieces: bytes) -> bytes:
    writer = EventWriter(REPEATED, "req_abc")
    return b"".join(writer.feed(piece) for piece in pieces)


def test_the_sdk_knows_every_event_and_their_numbers_have_no_gap() -> None:
    raw = written(SENT)
    events = events_of(raw)
    for event in events:
        EVENT.validate_python(event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert b": still here\n\n" in raw
    final = events[-1]["response"]
    assert [item["type"] for item in final["output"]] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
    ]
    assert final["output"][1]["content"][0]["text"] == "ab\n\nc"
    assert [item["arguments"] for item in final["output"][2:]] == ["{}", "{}"]
    assert (final["usage"]["input_tokens_details"]["cached_tokens"], final["created_at"]) == (2, 7)


def test_each_item_is_closed_before_the_next_opens() -> None:
    open_items: set[int] = set()
    for event in events_of(written(SENT)):
        if event["type"] == "response.output_item.added":
            assert not open_items
            open_items.add(event["output_index"])
        elif event["type"] == "response.output_item.done":
            open_items.remove(event["output_index"])
        elif "output_index" in event:
            assert event["output_index"] in open_items
    assert not open_items


@given(st.lists(st.integers(0, len(SENT)), max_size=20))
def test_any_chunking_gives_the_same_events(places: list[int]) -> None:
    cuts = [0, *sorted(places), len(SENT)]
    assert written(*[SENT[a:b] for a, b in itertools.pairwise(cuts)]) == written(SENT)


def test_a_stream_that_breaks_ends_with_failed_wherever_it_was() -> None:
    for sent in (b"", chunk({"content": "a"}), SENT[:900]):
        writer = EventWriter(REPEATED, "req_abc")
        raw = writer.feed(sent) + writer.fail(EngineFailed())
        events = events_of(raw)
        assert events[0]["type"] == "response.created"
        assert events[-1]["type"] == "response.failed"
        EVENT.validate_python(events[-1])


def test_nonsense_is_passed_over() -> None:
    odd = b'data: {\n\ndata: []\n\ndata: {"choices": 5}\n\nid: 7\n\n'
    events = events_of(written(odd + replies.DONE))
    assert [event["type"] for event in events] == [
        "response.created",
        "response.in_progress",
        "response.completed",
    ]


@pytest.mark.parametrize(
    ("rest", "statuses"), [('{"a": 1}', ["completed", "completed"]), ('{"a"', ["completed", "incomplete"])]
)
def test_only_what_breaks_off_is_incomplete(rest: str, statuses: list[str]) -> None:
    raw = written(
        chunk({"content": "so"})
        + chunk(call(0, rest, id="call_1", name="f"))
        + chunk({}, "length")
        + replies.DONE
    )
    last = events_of(raw)[-1]
    assert last["type"] == "response.incomplete"
    assert [item["status"] for item in last["response"]["output"]] == statuses


def test_words_after_calls_are_a_message_of_their_own() -> None:
    """Engines differ in where they put them; no two items of an answer have one id."""
    raw = written(
        chunk({"reasoning_content": "h"}),
        chunk({"content": "a"}),
        chunk(call(0, "{}", id="call_1", name="f")),
        chunk({"reasoning_content": "i"}),
        chunk({"content": "b"}),
        chunk({"content": "c"}),
        chunk({}, "tool_calls") + replies.DONE,
    )
    found = events_of(raw)
    for event in found:
        EVENT.validate_python(event)
    output = found[-1]["response"]["output"]
    assert [(item["type"], item["id"]) for item in output] == [
        ("reasoning", "rs_abc"),
        ("message", "msg_abc"),
        ("function_call", "fc_abc00"),
        ("reasoning", "rs_abc01"),
        ("message", "msg_abc01"),
    ]
    assert [item["content"][0]["text"] for item in output if item["type"] == "message"] == ["a", "bc"]
    added = [event["item"]["id"] for event in found if event["type"] == "response.output_item.added"]
    assert added == [item["id"] for item in output]
