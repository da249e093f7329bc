"""Input items as messages."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import GatewayError
from gateway.wire.responses.items import messages_of


def test_turns_with_calls_come_together() -> None:
    call = {"type": "function_call", "name": "f", "arguments": "{}"}
    messages = messages_of(
        [
            {"role": "developer", "content": "d"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {**call, "call_id": "1"},
            {**call, "call_id": "2"},
            {"type": "function_call_output", "call_id": "1", "output": [{"type": "input_text", "text": "x"}]},
            {**call, "call_id": "3"},
        ],
        "i",
    )
    shapes = [(m["role"], [c["id"] for c in m.get("tool_calls", [])]) for m in messages]
    assert shapes == [
        ("system", []), ("developer", []), ("assistant", ["1", "2"]), ("tool", []), ("assistant", ["3"])
    ]  # fmt: skip
    assert messages[3]["content"] == [{"type": "text", "text": "x"}]
    assert messages[4]["content"] is None


def test_words_after_calls_belong_to_the_turn_of_the_calls() -> None:
    """A chat's tool messages must follow the calls at once: engines and templates refuse anything in between."""

    def said(text: str) -> dict[str, Any]:
        return {"role": "assistant", "content": [{"type": "output_text", "text": text}]}

    def called(number: int) -> dict[str, Any]:
        return {"type": "function_call", "call_id": f"call_{number}", "name": "f", "arguments": "{}"}

    outputs = [{"type": "function_call_output", "call_id": f"call_{n}", "output": "ok"} for n in (1, 2)]
    after = [called(1), called(2), said("after"), *outputs]
    around = [said("before"), called(1), called(2), {**said(""), "content": "after"}, *outputs]
    texts = {}
    for given in (after, around):
        turn, *answers = messages_of(given, None)
        assert [call["id"] for call in turn["tool_calls"]] == ["call_1", "call_2"]
        assert [answer["role"] for answer in answers] == ["tool", "tool"]
        texts[len(given)] = [part["text"] for part in turn["content"]]
    assert texts == {5: ["after"], 6: ["before", "after"]}
    later = messages_of([called(1), outputs[0], said("x"), said("y")], None)
    assert [message["role"] for message in later] == ["assistant", "tool", "assistant", "assistant"]


def test_a_refusal_of_an_earlier_turn_is_its_text() -> None:
    [message] = messages_of([{"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}], None)
    assert message["content"] == [{"type": "text", "text": "no"}]


@pytest.mark.parametrize(
    ("given", "param"),
    [
        (None, "input"),
        (5, "input"),
        ([], "input"),
        ([1], "input[0]"),
        ([{"role": "robot", "content": "x"}], "input[0].role"),
        ([{"role": "user"}], "input[0].content"),
        ([{"role": "user", "content": 5}], "input[0].content"),
        ([{"role": "user", "content": ["x"]}], "input[0].content[0]"),
        ([{"role": "user", "content": [{"type": "input_text"}]}], "input[0].content[0].text"),
        ([{"role": "user", "content": [{"type": "input_text", "text": 5}]}], "input[0].content[0].text"),
        ([{"type": "function_call", "call_id": "1", "name": "f"}], "input[0].arguments"),
        ([{"type": "web_search_call"}], "input[0].type"),
    ],
)
def test_what_makes_no_sense_is_named_by_its_place(given: Any, param: str) -> None:
    with pytest.raises(GatewayError) as caught:
        messages_of(given, None)
    assert (caught.value.status, caught.value.param) == (400, param)
