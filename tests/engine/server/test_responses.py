"""Documents and events, byte by byte where clients depend on it. (Shapes: test_openai_routes.)"""

from __future__ import annotations

import math

import orjson

from engine.messages import TokenLogprobs
from engine.server.choice import Delta
from engine.server.responses import ChatShape, CompletionShape, Usage, error_event, joined
from tests.engine.server.test_choice import Letters


def chat() -> ChatShape:
    return ChatShape(id_="c", created=1, model='m"x', vocabulary=Letters())


def completion() -> CompletionShape:
    return CompletionShape(id_="c", created=1, model="m", vocabulary=Letters())


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
    delta = Delta(0, "a", [97], [(97, entry)], "stop")
    for shape in (chat(), completion()):
        assert b"-9999.0" in shape.whole([delta], Usage(1))


def test_offsets_go_on_over_chunks() -> None:
    shape = completion()
    entry = TokenLogprobs(token_logprob=-1.0, rank=1, top_ids=[], top_logprobs=[])
    offsets = []
    for text in ("ab", "c"):
        delta = Delta(0, text, logprobs=[(ord(char), entry) for char in text])
        (event,) = parse(shape.chunk(delta, None))
        offsets += event["choices"][0]["logprobs"]["text_offset"]  # type: ignore[index]  # a parsed event
    assert offsets == [0, 1, 2]


def test_joined() -> None:
    whole = joined([Delta(0, "a", [1]), Delta(0, "b", [2, 3], finish_reason="length")])
    assert (whole.text, whole.token_ids, whole.finish_reason) == ("ab", [1, 2, 3], "length")


def test_error_event() -> None:
    assert error_event(b"{}") == b"data: {}\n\n"
