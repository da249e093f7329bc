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
    "reasoning_effort": ["none", "high"],
    "bad_words": [[], ["a"] * 128],
    "cache_salt": ["x"],
    "priority": [-5, 0, 7],
    "response_format": [{"type": "text"}, {"type": "json_object"}],
    "structured_outputs": [{"regex": "a+"}],
    "max_tokens": [1, 1000],
    "max_completion_tokens": [1],
    "top_logprobs": [None],
    "add_generation_prompt": [False],
    "continue_final_message": [True],
    "chat_template_kwargs": [{"enable_thinking": False}],
    "messages": [USER],
    "tools": [[], [{"type": "function", "function": {"name": "f"}}]],
    "tool_choice": ["none", "auto"],
    "parallel_tool_calls": [False],
    "add_special_tokens": [False],
}


def chat(**values: Any) -> ChatRequest:
    return parse_chat(json.dumps({"model": "m", "messages": USER, **values}).encode())


def completion(**values: Any) -> CompletionRequest:
    return parse_completion(json.dumps({"model": "m", "prompt": "hi", **values}).encode())


def test_every_row_has_its_cases() -> None:
    rows = {*COMMON_FIELDS, *CHAT_FIELDS, *COMPLETION_FIELDS} - {"logprobs", "prompt", "best_of"}
    assert rows == GOOD.keys()


@pytest.mark.parametrize("name", [*COMMON_FIELDS, *CHAT_FIELDS])
def test_chat_takes(name: str) -> None:
    """What is refused: test_validation."""
    for value in GOOD[name] if name != "logprobs" else [True, False]:
        assert chat(**{name: value})


@pytest.mark.parametrize("name", sorted({*COMMON_FIELDS, *COMPLETION_FIELDS} - {"prompt", "best_of"}))
def test_completions_take(name: str) -> None:
    for value in GOOD[name] if name != "logprobs" else [0, 20]:
        assert completion(**{name: value})


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
        ({"response_format": {"type": "json_object"}}, "ebnf"),
        ({"response_format": text, "structured_outputs": {"choice": ["a", "b"]}}, "choice"),
    ):
        for request in (chat(**values), completion(**values)):
            assert (request.grammar.kind if request.grammar else None) == kind
    with pytest.raises(ApiError, match="exclude each other"):
        chat(response_format={"type": "json_object"}, structured_outputs={"regex": "a"})


def test_tools() -> None:
    tool = [{"type": "function", "function": {"name": "f"}}]
    named = {"type": "function", "function": {"name": "f"}}
    assert chat(tools=tool, tool_choice="none").tools is None
    assert chat(tool_choice="auto").tools is None
    for choice, mode in ((None, "auto"), ("auto", "auto"), ("required", "required"), (named, "named")):
        use = chat(tools=tool, tool_choice=choice).tools
        assert use is not None
        assert use.mode == mode
    assert chat(tools=tool).ignored == ()


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
    assert chat(top_logprobs=0).num_logprobs is None, "asks for nothing, as some clients do"
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
