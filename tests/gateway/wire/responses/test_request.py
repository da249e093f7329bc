"""What is asked of a response, as a chat."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.errors import GatewayError
from gateway.wire.responses import parse_response


def parse(**fields: Any) -> Any:
    return parse_response(json.dumps({"model": "m", "input": "hello", **fields}).encode())


def test_the_chat_has_the_chats_names() -> None:
    asked = parse(
        max_output_tokens=9, reasoning={"effort": "low"}, text={"verbosity": "low"}, top_p=0.5, new="x"
    )
    assert asked.request.fields == {
        "model": "m",
        "messages": [{"role": "user", "content": "hello"}],
        "max_completion_tokens": 9,
        "reasoning_effort": "low",
        "verbosity": "low",
        "top_p": 0.5,
        "new": "x",
    }
    assert (asked.request.endpoint, asked.request.max_output_tokens, asked.request.choices) == (
        "responses",
        9,
        1,
    )


def test_usage_is_always_wanted_of_a_stream() -> None:
    asked = parse(stream=True, stream_options={"include_obfuscation": True})
    assert asked.request.fields["stream_options"] == {"include_usage": True}
    assert asked.request.include_usage


def test_the_bound_of_the_prompt_covers_what_the_engine_reads() -> None:
    """Money is held for the body that is sent, not for the shorter one that came."""
    asked = parse(instructions="x" * 500)
    assert asked.request.body_bytes == len(json.dumps(dict(asked.request.fields), separators=(",", ":")))


def test_an_answer_repeats_what_was_asked() -> None:
    tools = [{"type": "function", "name": "f", "parameters": {}}]
    repeated = parse(tools=tools, metadata={"a": "b"}, parallel_tool_calls=False).repeated
    assert (repeated["tools"], repeated["metadata"], repeated["parallel_tool_calls"]) == (
        tools,
        {"a": "b"},
        False,
    )
    assert (repeated["store"], repeated["previous_response_id"], repeated["tool_choice"]) == (
        False,
        None,
        "auto",
    )


@pytest.mark.parametrize(
    "fields",
    [
        {
            "store": False,
            "background": False,
            "truncation": "disabled",
            "include": [],
            "service_tier": "auto",
        },
        {
            "store": None,
            "previous_response_id": None,
            "tools": [],
            "text": None,
            "reasoning": None,
            "top_logprobs": 0,
        },
        {"text": {"format": {"type": "text"}}, "tool_choice": "required", "n": 1},
    ],
)
def test_what_asks_for_nothing_passes(fields: dict[str, Any]) -> None:
    assert parse(**fields).request.model == "m"


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"model": None}, "missing_required_parameter", "model"),
        ({"n": 2}, "unsupported_parameter", "n"),
        ({"top_logprobs": 5}, "unsupported_parameter", "top_logprobs"),
        ({"tools": {}}, None, "tools"),
        ({"tools": [1]}, None, "tools[0]"),
        ({"tools": [{"type": "function"}]}, "missing_required_parameter", "tools[0].name"),
        ({"reasoning": "low"}, None, "reasoning"),
        ({"text": []}, None, "text"),
        ({"text": {"format": []}}, None, "text.format"),
        ({"text": {"format": {"type": "grammar"}}}, "invalid_value", "text.format.type"),
        ({"max_output_tokens": 0}, "invalid_value", "max_output_tokens"),
        ({"max_output_tokens": "5"}, None, "max_output_tokens"),
    ],
)
def test_what_makes_no_sense_is_told_by_the_callers_own_names(
    fields: dict[str, Any], code: str | None, param: str
) -> None:
    with pytest.raises(GatewayError) as caught:
        parse(**fields)
    assert (caught.value.status, caught.value.param) == (400, param)
    if code is not None:
        assert caught.value.code == code
