"""Texts, offsets and echoes of /v1/completions. (What both endpoints share: test_responses; HTTP: test_prompt_fields.)"""

from __future__ import annotations

from typing import Any

import orjson

from engine.messages import TokenLogprobs
from engine.server.choice import Delta
from engine.server.completion_shape import CompletionShape, Prompt
from engine.server.responses import TokenStyle, Usage
from tests.engine.server.test_choice import Letters

PLAIN = TokenLogprobs(token_logprob=-1.0, rank=1, top_ids=[], top_logprobs=[])


class Bytes:
    """Ids below 256 are bytes, 256 is special."""

    special_ids = frozenset({256})

    def token_bytes(self, token_id: int) -> bytes:
        return b"<s>" if token_id == 256 else bytes([token_id])


def shape(prompts: list[Prompt], n: int = 1, vocabulary: Any = None, **style: Any) -> CompletionShape:
    return CompletionShape(
        id_="c",
        created=1,
        model="m",
        vocabulary=vocabulary or Letters(),
        prompts=prompts,
        n=n,
        style=TokenStyle(**style),
    )


def choices(data: bytes) -> list[dict[str, Any]]:
    events = [orjson.loads(event.removeprefix(b"data: ")) for event in data.strip().split(b"\n\n")]
    return [choice for event in events for choice in event["choices"]]


def said(index: int, text: str, **fields: Any) -> Delta:
    return Delta(index, text, list(text.encode()), [(byte, PLAIN) for byte in text.encode()], **fields)


def test_offsets_go_on_over_chunks() -> None:
    one = shape([Prompt([1])], num_logprobs=0)
    found = [choices(one.chunk(said(0, text), None))[0]["logprobs"] for text in ("ab", "c")]
    assert [lines["text_offset"] for lines in found] == [[0, 1], [2]]


def test_offsets_count_characters_of_the_text() -> None:
    """A token inside a character begins with it; one that is not in the text takes no room."""
    one = shape([Prompt([1])], vocabulary=Bytes(), num_logprobs=0)
    delta = Delta(0, "é!", logprobs=[(index, PLAIN) for index in (256, *"é".encode(), 33)])
    assert choices(one.chunk(delta, None))[0]["logprobs"]["text_offset"] == [0, 0, 0, 1]
    two = shape([Prompt([1])], vocabulary=Bytes(), num_logprobs=0, skip_special_tokens=False)
    assert choices(two.chunk(delta, None))[0]["logprobs"]["text_offset"] == [0, 3, 3, 4]


def test_no_offset_is_past_the_text() -> None:
    """Also where a stop string of several tokens ended it and is not shown; streamed, whole, and behind an echo."""
    hidden = [(byte, PLAIN) for byte in b"cde"]
    end: dict[str, Any] = {"finish_reason": "stop", "stop_reason": "de"}
    streamed = shape([Prompt([1])], num_logprobs=0)
    first = choices(streamed.chunk(said(0, "ab"), None))[0]["logprobs"]["text_offset"]
    last = choices(streamed.chunk(Delta(0, "c", [*b"cde"], hidden, **end), None))[0]["logprobs"][
        "text_offset"
    ]
    assert (first, last) == ([0, 1], [2, 3, 3])
    logprobs = [(byte, PLAIN) for byte in b"abcde"]
    for echo, shift in ((None, 0), ("xyz", 3)):
        prompt = Prompt([120], echo)
        whole = shape([prompt], num_logprobs=0).whole([Delta(0, "abc", [], logprobs, **end)], Usage(1))
        offsets = orjson.loads(whole)["choices"][0]["logprobs"]["text_offset"]
        assert offsets[-5:] == [shift + place for place in (0, 1, 2, 3, 3)]


def test_an_echo_stands_before_each_answer_of_its_prompt() -> None:
    document = orjson.loads(
        shape([Prompt([97], "a"), Prompt([98], "b")], n=2).whole(
            [Delta(index, str(index)) for index in range(4)], Usage(2)
        )
    )
    assert [choice["text"] for choice in document["choices"]] == ["a0", "a1", "b2", "b3"]


def test_an_echo_has_log_probabilities_if_the_answer_has() -> None:
    """The first token's is null; offsets and alternatives go on; siblings share what the first child found."""
    found = [TokenLogprobs(-2.0, 5, [120, 121], [-0.5, -0.6])]
    one = shape([Prompt([97, 98], "ab")], n=2, num_logprobs=1)
    deltas = [said(0, "c", prompt_logprobs=found), said(1, "d")]
    for choice, last in zip(orjson.loads(one.whole(deltas, Usage(2)))["choices"], "cd", strict=True):
        assert choice["text"] == "ab" + last
        assert choice["logprobs"] == {
            "tokens": ["a", "b", last],
            "token_logprobs": [None, -2.0, -1.0],
            "top_logprobs": [None, {"x": -0.5, "b": -2.0}, {last: -1.0}],
            "text_offset": [0, 1, 2],
        }
    streamed = shape([Prompt([97, 98], "ab")], num_logprobs=1)
    (first,) = choices(streamed.opening(0, found))
    (second,) = choices(streamed.chunk(said(0, "c"), None))
    assert (first["text"], first["logprobs"]["tokens"], second["text"]) == ("ab", ["a", "b"], "c")
    assert second["logprobs"]["text_offset"] == [2]


def test_a_token_that_was_put_before_the_text_takes_no_room_in_it() -> None:
    found = [TokenLogprobs(-2.0, 5, [], [])]
    for echo, offsets in (("a", [0, 0]), ("<s>a", [0, 3])):
        (choice,) = choices(
            shape([Prompt([256, 97], echo)], vocabulary=Bytes(), num_logprobs=0).opening(0, found)
        )
        assert choice["logprobs"]["text_offset"] == offsets


def test_without_echo_and_ids_nothing_comes_before_the_text() -> None:
    assert shape([Prompt([97])], num_logprobs=1).opening(0, []) == b""
    (choice,) = choices(shape([Prompt([97])], with_token_ids=True).opening(0))
    assert (choice["prompt_token_ids"], choice["token_ids"], choice["text"]) == ([97], [], "")
