"""Documents and events, byte by byte where clients depend on it. (Shapes: test_openai_routes.)"""

from __future__ import annotations

import math
from typing import Any

import orjson

from engine.messages import TokenLogprobs
from engine.server.choice import CallDelta, Delta
from engine.server.completion_shape import CompletionShape, Prompt
from engine.server.responses import ChatShape, Speller, TokenStyle, Usage, error_event
from tests.engine.server.test_choice import Letters

PROMPT = [112, 113]


def chat(echo: str = "", **style: Any) -> ChatShape:
    return ChatShape(
        id_="c",
        created=1,
        model='m"x',
        vocabulary=Letters(),
        prompt_token_ids=PROMPT,
        style=TokenStyle(**style),
        echo=echo,
    )


def completion(**style: Any) -> CompletionShape:
    return CompletionShape(
        id_="c",
        created=1,
        model="m",
        vocabulary=Letters(),
        prompts=[Prompt(PROMPT)],
        n=1,
        style=TokenStyle(**style),
    )


def parse(data: bytes) -> list[dict[str, object]]:
    assert data.endswith(b"\n\n")
    return [orjson.loads(event.removeprefix(b"data: ")) for event in data[:-2].split(b"\n\n")]


def test_text_is_escaped() -> None:
    text = 'quote " backslash \\ newline \n\n tab \t 世 \x00 </script>'
    (event,) = parse(chat().chunk(Delta(0, text), None))
    assert event["choices"][0]["delta"] == {"content": text}  # type: ignore[index]  # a parsed event
    assert event["model"] == 'm"x'
    (event,) = parse(completion().chunk(Delta(0, text), None))
    assert event["choices"][0]["text"] == text  # type: ignore[index]  # a parsed event


def test_text_and_end_are_two_chat_events() -> None:
    first, second = parse(chat().chunk(Delta(1, "a", finish_reason="stop", stop_reason=7), None))
    assert first["choices"] == [
        {"index": 1, "delta": {"content": "a"}, "logprobs": None, "finish_reason": None}
    ]
    assert second["choices"] == [
        {"index": 1, "delta": {}, "logprobs": None, "finish_reason": "stop", "stop_reason": 7}
    ]


def test_usage_chunk_and_usage_in_chunks() -> None:
    usage = Usage(5)
    usage.completion_tokens, usage.cached_tokens = 2, 4
    document = {
        "prompt_tokens": 5,
        "completion_tokens": 2,
        "total_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 4},
    }
    for shape in (chat(), completion()):
        (event,) = parse(shape.usage_chunk(usage))
        assert (event["choices"], event["usage"]) == ([], document)
        (event,) = parse(shape.chunk(Delta(0, "a"), usage))
        assert event["usage"] == document
        (event,) = parse(shape.chunk(Delta(0, "a"), None))
        assert "usage" not in event


def test_log_zero_is_a_number() -> None:
    entry = TokenLogprobs(token_logprob=-math.inf, rank=1, top_ids=[98], top_logprobs=[-math.inf])
    delta = Delta(0, "a", [97], [(97, entry)], finish_reason="stop")
    for shape in (chat(), completion(num_logprobs=1)):
        assert b"-9999.0" in shape.whole([delta], Usage(1))


def test_the_opening_has_the_role_the_echo_and_the_usage() -> None:
    usage = Usage(5)
    (event,) = parse(chat("so far").opening(3, None, usage))
    choice = {
        "index": 3,
        "delta": {"role": "assistant", "content": "so far"},
        "logprobs": None,
        "finish_reason": None,
    }
    assert (event["choices"], event["usage"]) == ([choice], usage.document())
    (event,) = parse(chat(with_token_ids=True).opening(0))
    assert event["prompt_token_ids"] == PROMPT
    assert "usage" not in event


def test_prompt_logprobs_name_the_token_first_and_as_many_as_asked_for() -> None:
    found = [TokenLogprobs(token_logprob=-3.0, rank=7, top_ids=[97, 98], top_logprobs=[-0.1, -math.inf])]
    entries = {
        "113": {"logprob": -3.0, "rank": 7, "decoded_token": "q"},
        "97": {"logprob": -0.1, "rank": 1, "decoded_token": "a"},
        "98": {"logprob": -9999.0, "rank": 2, "decoded_token": "b"},
    }
    for count in (0, 1, 2):
        style = TokenStyle(num_prompt_logprobs=count)
        (nothing, first) = Speller(Letters(), style).prompt_logprobs(PROMPT, found)
        assert nothing is None
        assert list(first.items()) == list(entries.items())[: count + 1]
    assert Speller(Letters(), TokenStyle()).prompt_logprobs(PROMPT, []) == [None]
    document = orjson.loads(
        chat(num_prompt_logprobs=2).whole([Delta(0, "x", prompt_logprobs=found)], Usage(2))
    )
    assert document["prompt_logprobs"] == [None, entries]
    assert "prompt_logprobs" not in orjson.loads(chat().whole([Delta(0, "x")], Usage(2)))


def test_tokens_as_ids() -> None:
    entry = TokenLogprobs(token_logprob=-1.0, rank=1, top_ids=[98], top_logprobs=[-0.5])
    delta = Delta(0, "a", [97], [(97, entry)], finish_reason="stop")
    content = orjson.loads(chat(as_token_ids=True).whole([delta], Usage(1)))["choices"][0]["logprobs"]
    assert content["content"][0]["token"] == "token_id:97"
    assert content["content"][0]["bytes"] == [97]
    assert content["content"][0]["top_logprobs"][0]["token"] == "token_id:98"
    shape = completion(as_token_ids=True, num_logprobs=1)
    logprobs = orjson.loads(shape.whole([delta], Usage(1)))["choices"][0]["logprobs"]
    assert logprobs["tokens"] == ["token_id:97"]
    assert logprobs["top_logprobs"] == [{"token_id:98": -0.5, "token_id:97": -1.0}]


def test_error_event() -> None:
    assert error_event(b"{}") == b"data: {}\n\n"


def test_reasoning_and_calls_are_members_of_the_delta() -> None:
    delta = Delta(0, "b", reasoning="a", calls=[CallDelta(0, '{"x"', "call_1", "f"), CallDelta(1, ": 1}")])
    (event,) = parse(chat().chunk(delta, None))
    assert event["choices"][0]["delta"] == {  # type: ignore[index]  # a parsed event
        "reasoning": "a",
        "reasoning_content": "a",
        "content": "b",
        "tool_calls": [
            {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"x"'}},
            {"index": 1, "function": {"arguments": ": 1}"}},
        ],
    }
    (event,) = parse(chat().chunk(Delta(0, reasoning="a"), None))
    assert event["choices"][0]["delta"] == {"reasoning": "a", "reasoning_content": "a"}  # type: ignore[index]  # a parsed event


def test_messages_of_calls_and_reasoning() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    for delta, message in (
        (Delta(0, calls=[CallDelta(0, "{}", "call_1", "f")]), {"content": None, "tool_calls": [call]}),
        (Delta(0, reasoning="a"), {"content": None, "reasoning": "a", "reasoning_content": "a"}),
        (Delta(0, "b", reasoning="a"), {"content": "b", "reasoning": "a", "reasoning_content": "a"}),
        (Delta(0), {"content": ""}),
    ):
        document = orjson.loads(chat().whole([delta], Usage(1)))
        assert document["choices"][0]["message"] == {"role": "assistant", "refusal": None, **message}


def test_reasoning_tokens_are_part_of_the_usage() -> None:
    usage = Usage(5)
    assert "completion_tokens_details" not in usage.document()
    usage.reasoning_tokens = 3
    assert usage.document()["completion_tokens_details"] == {"reasoning_tokens": 3}
