"""Whole answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.responses import Response

from gateway.errors import EngineFailed
from gateway.wire.responses import parse_response, response_of_chat
from gateway.wire.responses.answer import Ids, failed, response

REPEATED = parse_response(b'{"model": "m", "input": "x"}').repeated


def answer(message: dict[str, Any], finish: str = "stop") -> Response:
    body = {"created": 5, "choices": [{"message": message, "finish_reason": finish}]}
    raw = response_of_chat(json.dumps(body).encode(), REPEATED, "req_abc")
    return Response.model_validate(json.loads(raw), strict=True)


def test_reasoning_words_and_calls_are_items_in_this_order() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    found = answer({"content": "c", "reasoning_content": "r", "tool_calls": [call, call]}, "tool_calls")
    assert [item.type for item in found.output] == ["reasoning", "message", "function_call", "function_call"]
    assert len({item.id for item in found.output}) == 4
    assert (found.id, found.created_at, found.status, found.output_text) == ("resp_abc", 5, "completed", "c")


def test_calls_without_words_have_no_message() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert [item.type for item in answer({"content": None, "tool_calls": [call]}).output] == ["function_call"]


def test_a_refusal_is_one() -> None:
    [item] = answer({"content": None, "refusal": "no"}).output
    assert item.type == "message"
    assert item.content[0].type == "refusal"


@pytest.mark.parametrize(
    ("finish", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter")]
)
def test_what_was_cut_says_why(finish: str, reason: str) -> None:
    found = answer({"content": "c"}, finish)
    assert found.status == "incomplete"
    assert found.incomplete_details is not None
    assert found.incomplete_details.reason == reason


def test_an_engine_without_usage_or_choices_still_gives_a_response() -> None:
    found = Response.model_validate(json.loads(response_of_chat(b"{}", REPEATED, "req_a")), strict=True)
    assert (found.usage, found.output_text) == (None, "")


def test_a_failed_one_is_a_response_too() -> None:
    fields = response(REPEATED, Ids("req_a"), 0, [], None, **failed(EngineFailed("broke")))
    found = Response.model_validate(fields)
    assert found.error is not None
    assert (found.status, found.error.message) == ("failed", "broke")


@pytest.mark.parametrize(
    ("content", "arguments", "statuses"),
    [
        ("so", ["{}", '{"a": 1}'], ["incomplete", "completed", "completed"]),
        ("so", ["{}", '{"a": '], ["completed", "completed", "incomplete"]),
        (None, ["{}"], ["completed"]),
    ],
)
def test_only_what_breaks_off_is_incomplete(
    content: str | None, arguments: list[str], statuses: list[str]
) -> None:
    calls = [{"id": f"call_{text}", "function": {"name": "f", "arguments": text}} for text in arguments]
    found = answer({"content": content, "tool_calls": calls}, "length")
    assert found.status == "incomplete"
    assert [getattr(item, "status", None) for item in found.output] == statuses
