"""The validation tables, row by row, at the edges of every range."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.server.errors import ApiError
from engine.server.field_tables import (
    CHAT_FIELDS,
    COMMON_FIELDS,
    COMPLETION_FIELDS,
    UNSUPPORTED_IN_CHAT,
    UNSUPPORTED_IN_COMPLETIONS,
)
from engine.server.protocol import ChatRequest, CompletionRequest, parse_chat, parse_completion

USER = [{"role": "user", "content": "hi"}]

GOOD: dict[str, list[Any]] = {
    "model": ["m"],
    "temperature": [0, 2, 0.5, None],
    "top_p": [0, 1],
    "top_k": [-1, 0, 50],
    "min_p": [0, 1],
    "repetition_penalty": [0.01, 10],
    "presence_penalty": [-2, 2],
    "frequency_penalty": [-2, 2],
    "seed": [0, -5, 2**63 - 1],
    "n": [1, 128],
    "stop": ["a", ["a", "b"], None, []],
    "stop_token_ids": [[], [1, 2]],
    "min_tokens": [0, 5],
    "ignore_eos": [True],
    "logit_bias": [{}, {"7": -100}],
    "allowed_token_ids": [[1]],
    "stream": [True, False],
    "include_stop_str_in_output": [True],
    "skip_special_tokens": [False],
    "return_token_ids": [True],
    "return_tokens_as_token_ids": [True],
    "prompt_logprobs": [0, 20, None],
    "echo": [True],
    "bad_words": [[], ["a"] * 128],
    "cache_salt": ["x"],
    "response_format": [{"type": "text"}, {"type": "json_object"}],
    "structured_outputs": [{"regex": "a+"}],
    "max_tokens": [1, 1000],
    "max_completion_tokens": [1],
    "top_logprobs": [None],
    "add_generation_prompt": [False],
    "continue_final_message": [True],
    "chat_template_kwargs": [{"enable_thinking": False}],
    "messages": [USER],
    "add_special_tokens": [False],
}
BAD: dict[str, list[Any]] = {
    "model": [5, "x" * 300],
    "temperature": [-0.1, 2.1, "1", True],
    "top_p": [-0.1, 1.1],
    "top_k": [-2, 0.5],
    "min_p": [-0.1, 1.1],
    "repetition_penalty": [0, 1e-300, 11],
    "presence_penalty": [-2.1, 2.1],
    "frequency_penalty": [-2.1, 2.1],
    "seed": [1.5, "1", 2**64],
    "n": [0, 129, 1.5, True],
    "stop": ["", [""], ["a"] * 17, 5, "x" * 513],
    "stop_token_ids": [[-1], ["a"], 5],
    "min_tokens": [-1],
    "ignore_eos": [1],
    "logit_bias": [[1], {"a": 1}, {"1": 101}],
    "allowed_token_ids": [[], [-1]],
    "stream": ["yes"],
    "include_stop_str_in_output": [1],
    "skip_special_tokens": [0],
    "return_token_ids": ["x"],
    "return_tokens_as_token_ids": ["x"],
    "prompt_logprobs": [-1, 21, True],
    "echo": [1],
    "bad_words": ["a", [" "], [5], ["a"] * 129, ["a" * 257]],
    "cache_salt": [5],
    "response_format": ["json", {}, {"type": "xml"}, {"type": "json_schema"}],
    "structured_outputs": [[], {}, {"json_object": False}, {"json": ""}],
    "max_tokens": [0, -1, 1.5],
    "max_completion_tokens": [0],
    "top_logprobs": [-1, 21, 5],  # 5: without logprobs
    "add_generation_prompt": [1],
    "continue_final_message": ["x"],
    "chat_template_kwargs": [[]],
    "messages": [[], {}],
    "add_special_tokens": [1],
}
LOGPROBS = {"chat": ([True, False], [5, "x"]), "completion": ([0, 20], [-1, 21, True])}


def chat(**values: Any) -> ChatRequest:
    return parse_chat(json.dumps({"model": "m", "messages": USER, **values}).encode())


def completion(**values: Any) -> CompletionRequest:
    return parse_completion(json.dumps({"model": "m", "prompt": "hi", **values}).encode())


def test_every_row_has_its_cases() -> None:
    rows = {*COMMON_FIELDS, *CHAT_FIELDS, *COMPLETION_FIELDS} - {"logprobs", "prompt", "best_of"}
    assert rows == GOOD.keys() == BAD.keys()


@pytest.mark.parametrize("name", [*COMMON_FIELDS, *CHAT_FIELDS])
def test_chat_rows(name: str) -> None:
    good, bad = (GOOD[name], BAD[name]) if name != "logprobs" else LOGPROBS["chat"]
    for value in good:
        chat(**{name: value})
    for value in bad:
        with pytest.raises(ApiError) as caught:
            chat(**{name: value})
        assert caught.value.status == 400, value
        assert (caught.value.param or "").startswith(name)


@pytest.mark.parametrize("name", sorted({*COMMON_FIELDS, *COMPLETION_FIELDS} - {"prompt", "best_of"}))
def test_completion_rows(name: str) -> None:
    good, bad = (GOOD[name], BAD[name]) if name != "logprobs" else LOGPROBS["completion"]
    for value in good:
        completion(**{name: value})
    for value in bad:
        with pytest.raises(ApiError) as caught:
            completion(**{name: value})
        assert (caught.value.param or "").startswith(name)


@pytest.mark.parametrize("name", UNSUPPORTED_IN_CHAT)
def test_unsupported_in_chat(name: str) -> None:
    for neutral in (None, *UNSUPPORTED_IN_CHAT[name].neutral):
        assert name not in chat(**{name: neutral}).ignored
    with pytest.raises(ApiError) as caught:
        chat(**{name: "something"})
    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", name)


@pytest.mark.parametrize("name", UNSUPPORTED_IN_COMPLETIONS)
def test_unsupported_in_completions(name: str) -> None:
    for neutral in (None, *UNSUPPORTED_IN_COMPLETIONS[name].neutral):
        completion(**{name: neutral})
    with pytest.raises(ApiError) as caught:
        completion(**{name: "something"})
    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", name)


def test_structured_output() -> None:
    text = {"type": "text"}
    for values, kind in (
        ({}, None),
        ({"response_format": text}, None),
        ({"response_format": {"type": "json_object"}}, "json_schema"),
        ({"response_format": text, "structured_outputs": {"choice": ["a", "b"]}}, "choice"),
    ):
        for request in (chat(**values), completion(**values)):
            assert (request.grammar.kind if request.grammar else None) == kind
    with pytest.raises(ApiError, match="exclude each other"):
        chat(response_format={"type": "json_object"}, structured_outputs={"regex": "a"})


def test_tools() -> None:
    tool = [{"type": "function", "function": {"name": "f"}}]
    assert chat(tools=tool, tool_choice="none").ignored == ()
    assert chat(tool_choice="auto").messages
    for values, param in (
        ({"tools": tool}, "tools"),
        ({"tools": tool, "tool_choice": "auto"}, "tools"),
        ({"tools": tool, "tool_choice": "required"}, "tool_choice"),
        ({"tools": tool, "tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice"),
    ):
        with pytest.raises(ApiError) as caught:
            chat(**values)
        assert (caught.value.code, caught.value.param) == ("unsupported_parameter", param)


def test_harmless_fields_are_named() -> None:
    request = chat(user="u", metadata={"a": "b"}, store=False, surprise=1, service_tier=None)
    assert request.ignored == ("user", "metadata", "store", "surprise")
    request = chat(stream=True, stream_options={"include_obfuscation": False})
    assert request.ignored == ("stream_options.include_obfuscation",)


def test_stream_options() -> None:
    request = chat(stream=True, stream_options={"include_usage": True})
    assert (request.include_usage, request.continuous_usage_stats) == (True, False)
    request = completion(stream=True, stream_options={"continuous_usage_stats": True, "include_usage": None})
    assert (request.include_usage, request.continuous_usage_stats) == (True, True)
    for options in ({"include_usage": 1}, [1], "x"):
        with pytest.raises(ApiError, match="stream_options"):
            chat(stream=True, stream_options=options)
    with pytest.raises(ApiError, match="needs 'stream'"):
        chat(stream_options={"include_usage": True})


def test_max_completion_tokens_wins() -> None:
    assert chat(max_tokens=5, max_completion_tokens=7).max_tokens == 7
    assert chat(max_tokens=5).max_tokens == 5
    assert chat().max_tokens is None
    assert completion().max_tokens == 16


def test_logprobs() -> None:
    assert chat().num_logprobs is None
    assert chat(logprobs=True).num_logprobs == 0
    assert chat(logprobs=True, top_logprobs=20).num_logprobs == 20
    assert completion(logprobs=0).num_logprobs == 0


def test_prompts() -> None:
    assert completion(prompt="a").prompts == ("a",)
    assert completion(prompt=["a", "b"]).prompts == ("a", "b")
    assert completion(prompt=[1, 2]).prompts == ((1, 2),)
    assert completion(prompt=[[1], [2, 3]]).prompts == ((1,), (2, 3))
    for prompt in (5, [], [[]], ["a", 1], [1, "a"], [True], [[1], "a"], [-1], {"a": 1}):
        with pytest.raises(ApiError) as caught:
            completion(prompt=prompt)
        assert (caught.value.param or "").startswith("prompt"), prompt
    with pytest.raises(ApiError) as caught:
        parse_completion(b'{"model": "m"}')
    assert (caught.value.code, caught.value.param) == ("missing_required_parameter", "prompt")


def test_rules_over_several_fields() -> None:
    with pytest.raises(ApiError, match="min_tokens"):
        completion(min_tokens=5, max_tokens=4)
    with pytest.raises(ApiError, match="At most"):
        completion(prompt=["a"] * 3, n=100)
    with pytest.raises(ApiError, match="exclude each other"):
        chat(continue_final_message=True, add_generation_prompt=True)
    assert completion(n=3, best_of=3).n == 3
    with pytest.raises(ApiError, match="best_of"):
        completion(best_of=2)
    assert completion(max_tokens=0, echo=True).scores_only
    assert completion(max_tokens=0, prompt_logprobs=0).scores_only
    with pytest.raises(ApiError, match="at least 1"):
        completion(max_tokens=0)
    with pytest.raises(ApiError, match="not streamed"):
        chat(prompt_logprobs=0, stream=True)


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"5", b'{"a": NaN}', b'"x"', b"\xff", b'{"a":' + b"[" * 5000, b'"\\ud800"']
)
def test_bodies_that_are_no_objects(raw: bytes) -> None:
    for parse in (parse_chat, parse_completion):
        with pytest.raises(ApiError) as caught:
            parse(raw)
        assert (caught.value.status, caught.value.param, caught.value.code) == (400, None, None)
