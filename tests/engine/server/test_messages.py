"""Chat messages: roles, parts, tool turns."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest

from engine.server.errors import ApiError
from engine.server.messages import read_messages

DEEP: Any = reduce(lambda inner, _: [inner], range(1000), 1)


def one(message: Any) -> dict[str, Any]:
    return read_messages("messages", [message])[0].for_template()


def test_text_and_parts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert one({"role": "user", "content": "hi"}) == {"role": "user", "content": "hi"}
    assert one({"role": "user", "content": parts})["content"] == "a\nb"
    assert one({"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]})["content"] == "no"


def test_names_and_tool_turns() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    turn = one({"role": "assistant", "content": None, "tool_calls": [call]})
    assert turn["tool_calls"][0]["function"] == {"name": "f", "arguments": {"x": 1}}
    assert turn["content"] == "", "templates look for words in it"
    turn = one({"role": "tool", "content": "42", "tool_call_id": "c1", "name": "f"})
    assert (turn["tool_call_id"], turn["name"]) == ("c1", "f")
    call["function"] = {"name": "f", "arguments": "no json"}
    assert (
        one({"role": "assistant", "tool_calls": [call]})["tool_calls"][0]["function"]["arguments"]
        == "no json"
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"x": 1}', {"x": 1}),
        ({"x": 1}, {"x": 1}),
        ("", {}),
        (None, {}),
        ("[1]", "[1]"),
        ('{"x": ', '{"x": '),
    ],
)
def test_past_arguments(arguments: Any, expected: Any) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    turn = one({"role": "assistant", "tool_calls": [call]})
    assert turn["tool_calls"][0]["function"]["arguments"] == expected


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
def test_past_reasoning(key: str) -> None:
    turn = one({"role": "assistant", "content": "x", key: "Hm."})
    assert (turn["reasoning"], turn["reasoning_content"]) == ("Hm.", "Hm.")
    assert "reasoning" not in one({"role": "user", "content": "x", key: "Hm."})


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([], "messages"),
        ("hi", "messages"),
        (["hi"], "messages[0]"),
        ([{"content": "x"}], "messages[0].role"),
        ([{"role": "pirate", "content": "x"}], "messages[0].role"),
        ([{"role": ["user"], "content": "x"}], "messages[0].role"),
        ([{"role": DEEP, "content": "x"}], "messages[0].role"),
        ([{"role": "user", "content": [{"type": DEEP}]}], "messages[0].content[0].type"),
        ([{"role": "user"}], "messages[0].content"),
        ([{"role": "user", "content": 5}], "messages[0].content"),
        ([{"role": "user", "content": [5]}], "messages[0].content[0]"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "messages[0].content[0].type"),
        ([{"role": "user", "content": [{"type": ["text"]}]}], "messages[0].content[0].type"),
        ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0].text"),
        ([{"role": "user", "content": [{"type": "text", "text": 1}]}], "messages[0].content[0].text"),
        ([{"role": "user", "content": "x", "name": 1}], "messages[0].name"),
        ([{"role": "assistant", "tool_calls": [{}]}], "messages[0].tool_calls[0].function"),
        (
            [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 5}}]}],
            "messages[0].tool_calls[0].function.arguments",
        ),
        (
            [{"role": "assistant", "tool_calls": [{"id": 5, "function": {"name": "f"}}]}],
            "messages[0].tool_calls[0].id",
        ),
        ([{"role": "assistant", "content": "x", "reasoning": 5}], "messages[0].reasoning"),
    ],
)
def test_refused(messages: Any, param: str) -> None:
    with pytest.raises(ApiError) as caught:
        read_messages("messages", messages)
    assert (caught.value.status, caught.value.param) == (400, param)
