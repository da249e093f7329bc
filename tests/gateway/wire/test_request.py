"""parse_generation: what the gateway must read is checked, everything else travels."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.server.messages import _TEXT_PARTS
from gateway.errors import GatewayError
from gateway.wire.request import CHAT, COMPLETIONS, EMBEDDINGS, Endpoint, parse_generation, render

CHAT_BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def parse(endpoint: Endpoint = CHAT, **fields: Any) -> Any:
    return parse_generation(endpoint, json.dumps(CHAT_BODY | fields).encode())


def test_reads_what_it_needs() -> None:
    request = parse(stream=True, stream_options={"include_usage": True}, max_tokens=5, n=2, user="u", x_y=[1])
    assert (request.model, request.stream, request.include_usage) == ("m", True, True)
    assert (request.max_output_tokens, request.choices, request.user) == (5, 2, "u")
    assert request.prompt_tokens_max > request.body_bytes


def test_the_newer_maximum_wins() -> None:
    assert parse(max_tokens=5, max_completion_tokens=7).max_output_tokens == 7
    assert parse().max_output_tokens is None


def test_a_completion_may_ask_for_nothing() -> None:
    """Its prompt is scored. Chat's name for the longest answer is not read there."""
    raw = json.dumps(
        {"model": "m", "prompt": "a", "max_tokens": 0, "echo": True, "max_completion_tokens": "x"}
    )
    assert parse_generation(COMPLETIONS, raw.encode()).max_output_tokens == 0
    with pytest.raises(GatewayError, match="between 0 and"):
        parse_generation(COMPLETIONS, b'{"model": "m", "prompt": "a", "max_tokens": -1}')


@pytest.mark.parametrize(
    ("prompt", "choices"), [("a", 3), (["a", "b"], 6), ([1, 2, 3], 3), ([[1, 2], [3]], 6)]
)
def test_every_prompt_of_a_completion_counts(prompt: Any, choices: int) -> None:
    raw = json.dumps({"model": "m", "prompt": prompt, "n": 3}).encode()
    assert parse_generation(COMPLETIONS, raw).choices == choices


def test_renders_unknown_fields_and_changes() -> None:
    request = parse(cache_salt="theirs", x_y={"deep": [1.5, None, "ü"]})
    body = json.loads(render(request, {"model": "up"}, frozenset({"cache_salt"})))
    assert body == {**CHAT_BODY, "x_y": {"deep": [1.5, None, "ü"]}, "model": "up"}


@pytest.mark.parametrize(
    ("raw", "code", "param"),
    [
        (b"{", None, None),
        (b"[]", None, None),
        (b"\xff", None, None),
        (b"{}", "missing_required_parameter", "model"),
        (b'{"model": 1}', None, "model"),
        (b'{"model": "m"}', "missing_required_parameter", "messages"),
        (b'{"model": "m", "messages": {}}', None, "messages"),
        (b'{"model": "m", "messages": []}', "invalid_value", "messages"),
        (b'{"model": "m", "messages": [1]}', None, "messages[0]"),
        (b'{"model": "m", "messages": [{"role": "user"}, {"role": 5}]}', None, "messages[1].role"),
        (b'{"model": "m", "messages": [{"role": "user", "content": 5}]}', None, "messages[0].content"),
        (b'{"model": "m", "messages": [{"role": "user"}], "stream": 1}', None, "stream"),
        (b'{"model": "m", "messages": [{"role": "user"}], "n": 0}', "invalid_value", "n"),
        (b'{"model": "m", "messages": [{"role": "user"}], "n": true}', None, "n"),
        (b'{"model": "m", "messages": [{"role": "user"}], "max_tokens": "9"}', None, "max_tokens"),
        (b'{"model": "m", "messages": [{"role": "user"}], "max_tokens": 0}', "invalid_value", "max_tokens"),
        (
            b'{"model": "m", "messages": [{"role": "user"}], "x": ' + b"[" * 300 + b"]" * 300 + b"}",
            None,
            None,
        ),
        (b'{"model": "m", "messages": [{"role": "user"}], "max_tokens": -1}', "invalid_value", "max_tokens"),
        (
            b'{"model": "m", "messages": [{"role": "user"}], "stream_options": {}}',
            "invalid_value",
            "stream_options",
        ),
        (
            b'{"model": "m", "messages": [{"role": "user"}], "stream": true, "stream_options": 1}',
            None,
            "stream_options",
        ),
    ],
)
def test_refuses_with_the_field(raw: bytes, code: str | None, param: str | None) -> None:
    with pytest.raises(GatewayError) as caught:
        parse_generation(CHAT, raw)
    assert (caught.value.status, caught.value.code, caught.value.param) == (400, code, param)


@pytest.mark.parametrize(
    ("part", "code", "place"),
    [
        ({"type": "image_url", "image_url": {"url": "http://10.0.0.1/"}}, "unsupported_parameter", ".type"),
        ({"type": "input_audio", "input_audio": {"data": ""}}, "unsupported_parameter", ".type"),
        ({"type": "file", "file": {"file_id": "x"}}, "unsupported_parameter", ".type"),
        ({"image_url": "http://10.0.0.1/"}, "unsupported_parameter", ".type"),
        ({"type": ["text"], "text": "x"}, "unsupported_parameter", ".type"),
        ("http://10.0.0.1/", None, ""),
    ],
)
def test_a_part_that_is_no_text_reaches_no_engine(part: Any, code: str | None, place: str) -> None:
    turn = {"role": "user", "content": [{"type": "text", "text": "x"}, part]}
    with pytest.raises(GatewayError) as caught:
        parse(messages=[{"role": "system", "content": "x"}, turn])
    assert (caught.value.status, caught.value.code) == (400, code)
    assert caught.value.param == f"messages[1].content[1]{place}"


def test_parts_of_text_are_those_of_our_engine() -> None:
    for kind in _TEXT_PARTS:
        turn = {"role": "user", "content": [{"type": kind, _TEXT_PARTS[kind]: "x"}]}
        assert parse(messages=[turn]).fields["messages"] == [turn]


def test_answers_that_are_made_and_not_given_are_refused() -> None:
    body = {"model": "m", "prompt": "a", "n": 2, "best_of": 2}
    assert parse_generation(COMPLETIONS, json.dumps(body).encode()).choices == 2
    with pytest.raises(GatewayError) as caught:
        parse_generation(COMPLETIONS, json.dumps(body | {"best_of": 3}).encode())
    assert (caught.value.status, caught.value.code) == (400, "unsupported_parameter")
    assert caught.value.param == "best_of"


def test_brackets_in_a_text_are_no_depth() -> None:
    assert json.loads(render(parse(x="[" * 300), {}, frozenset()))["x"] == "[" * 300


@pytest.mark.parametrize(
    ("prompt", "code"),
    [
        (None, "missing_required_parameter"),
        (1, None),
        ([], "invalid_value"),
        ([True, "x"], None),
        ([None, {}], None),
        ([1, "x"], None),
        (["x", [1]], None),
        ([[1], [True]], None),
        ([[1, "x"]], None),
        (["a"] * 2049, "invalid_value"),
    ],
)
def test_refuses_a_prompt(prompt: Any, code: str | None) -> None:
    with pytest.raises(GatewayError) as caught:
        parse_generation(COMPLETIONS, json.dumps({"model": "m", "prompt": prompt}).encode())
    assert (caught.value.code, caught.value.param) == (code, "prompt")


@pytest.mark.parametrize(
    ("texts", "count"), [("a b", 1), (["a", "b"], 2), ([1, 2, 3], 1), ([[1, 2], [3]], 2), ([""], 1)]
)
def test_every_input_to_embed_counts_and_nothing_is_generated(texts: Any, count: int) -> None:
    body = {"model": "m", "input": texts, "max_tokens": 5, "n": 3}
    request = parse_generation(EMBEDDINGS, json.dumps(body).encode())
    assert (request.messages, request.choices, request.max_output_tokens) == (count, 1, 0)
    assert not request.is_sampled


def test_vectors_are_not_streamed() -> None:
    with pytest.raises(GatewayError) as caught:
        parse_generation(EMBEDDINGS, json.dumps({"model": "m", "input": "a", "stream": True}).encode())
    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", "stream")
