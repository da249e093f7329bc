"""The validation table of the generation endpoints, from the caller's side: what is refused, and how.

One row per field and way to be wrong. `test_validation` walks every field of the protocol and fails for one without
a row. A new field brings its rows along.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

At = Literal["chat", "completion", "both"]

UNSUPPORTED = "unsupported_parameter"


class Row(NamedTuple):
    field: str
    value: Any
    says: str
    """Part of the message."""
    param: str | None = None
    """None: the field itself."""
    at: At = "both"
    beside: dict[str, Any] = {}  # noqa: RUF012  # never changed
    """Other fields of the body."""
    code: str = "invalid_value"


def _ranges() -> list[Row]:
    """(field, too small, too large, how the range reads)"""
    numbers = [
        ("temperature", -0.1, 2.1, "between 0 and 2"),
        ("top_p", -0.1, 1.1, "between 0 and 1"),
        ("min_p", -0.1, 1.1, "between 0 and 1"),
        ("repetition_penalty", 0, 11, "between 0.01 and 10"),
        ("repetition_penalty", 1e-300, 1e300, "between 0.01 and 10"),
        ("presence_penalty", -2.1, 2.1, "between -2 and 2"),
        ("frequency_penalty", -2.1, 2.1, "between -2 and 2"),
        ("top_k", -2, 2**31, "between -1 and 2147483647"),
        ("n", 0, 129, "between 1 and 128"),
        ("min_tokens", -1, 2**31, "between 0 and 2147483647"),
        ("prompt_logprobs", -1, 21, "between 0 and 20"),
    ]
    found = [Row(name, value, says) for name, low, high, says in numbers for value in (low, high)]
    found += [Row("max_tokens", value, "between 1 and", at="chat") for value in (0, -1, 2**31)]
    found += [Row("max_tokens", value, "between 0 and", at="completion") for value in (-1, 2**31)]
    found += [Row("max_completion_tokens", value, "between 1 and", at="chat") for value in (0, 2**31)]
    found += [Row("logprobs", value, "between 0 and 20", at="completion") for value in (-1, 21)]
    found += [
        Row("top_logprobs", v, "between 0 and 20", at="chat", beside={"logprobs": True}) for v in (-1, 21)
    ]
    found += [Row("best_of", value, "between 1 and 128", at="completion") for value in (0, 129)]
    return [*found, Row("seed", -(2**63) - 1, "expected an integer"), Row("seed", 2**63, "at least")]


def _types() -> list[Row]:
    numbers = ("temperature", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")
    integers = ("top_k", "n", "min_tokens", "seed", "prompt_logprobs", "max_tokens")
    flags = (
        *("stream", "ignore_eos", "include_stop_str_in_output", "skip_special_tokens", "echo"),
        *("return_token_ids", "return_tokens_as_token_ids", "add_special_tokens"),
    )
    chat_flags = ("logprobs", "add_generation_prompt", "continue_final_message")
    found = [Row(name, value, "expected a number") for name in numbers for value in ("1", True, [1], {})]
    found += [Row(name, value, "expected an integer") for name in integers for value in ("1", True, 1.5, [])]
    found += [Row(name, value, "expected a boolean") for name in flags for value in (1, "true", [])]
    found += [Row(name, value, "expected a boolean", at="chat") for name in chat_flags for value in (1, "x")]
    found += [
        Row("max_completion_tokens", 1.5, "expected an integer", at="chat"),
        Row("top_logprobs", True, "expected an integer", at="chat", beside={"logprobs": True}),
        Row("best_of", "2", "expected an integer", at="completion"),
        Row("logprobs", True, "expected an integer", at="completion"),
        Row("model", 5, "expected a string"),
        Row("cache_salt", 5, "expected a string"),
        Row("chat_template_kwargs", [], "expected an object", at="chat"),
        *[Row("stream_options", v, "expected an object", beside={"stream": True}) for v in ("x", 0, "", [])],
        Row("response_format", "json_object", "expected an object"),
        Row("structured_outputs", [], "expected an object"),
    ]
    return found


_LISTS = [
    Row("stop", "", "must not be empty"),
    Row("stop", [""], "must not be empty", "stop[0]"),
    Row("stop", ["a"] * 17, "0 to 16 elements"),
    Row("stop", "x" * 513, "at most 512 characters"),
    Row("stop", 5, "expected an array"),
    Row("stop", ["a", 5], "expected a string", "stop[1]"),
    Row("stop_token_ids", 5, "expected an array"),
    Row("stop_token_ids", [1, -1], "between 0 and", "stop_token_ids[1]"),
    Row("stop_token_ids", ["a"], "expected an integer", "stop_token_ids[0]"),
    Row("stop_token_ids", [1] * 129, "0 to 128 elements"),
    Row("stop_token_ids", [512], "this model has 512 tokens"),
    Row("allowed_token_ids", [], "expected 1 to"),
    Row("allowed_token_ids", [2**31], "between 0 and", "allowed_token_ids[0]"),
    Row("allowed_token_ids", [512], "this model has 512 tokens"),
    Row("allowed_token_ids", [1], "min_tokens", beside={"min_tokens": 1}),
    Row("bad_words", "a", "expected an array"),
    Row("bad_words", [" "], "must not be empty", "bad_words[0]"),
    Row("bad_words", [5], "expected a string", "bad_words[0]"),
    Row("bad_words", ["a"] * 129, "0 to 128 elements"),
    Row("bad_words", ["a" * 257], "at most 256 characters", "bad_words[0]"),
    Row("bad_words", ["🙂" * 9], "more than 16 tokens"),
    Row("logit_bias", [1], "expected an object"),
    Row("logit_bias", {"a": 1}, "no token id"),
    Row("logit_bias", {"-1": 1}, "no token id"),
    Row("logit_bias", {"1": 101}, "between -100 and 100", "logit_bias.1"),
    Row("logit_bias", {"1": "x"}, "expected a number", "logit_bias.1"),
    Row("logit_bias", {str(index): 1 for index in range(1025)}, "at most 1024 tokens"),
    Row("logit_bias", {"512": 1}, "this model has 512 tokens"),
    Row("reasoning_effort", "extreme", "expected one of none, minimal", at="chat"),
    Row("reasoning_effort", 3, "expected a string", at="chat"),
    Row("priority", "high", "expected an integer"),
    Row("priority", 2**31, "between -2147483648 and 2147483647"),
    Row("model", "x" * 257, "at most 256 characters"),
    Row("cache_salt", "x" * 1025, "at most 1024 characters"),
]

_TOGETHER = [
    Row("min_tokens", 5, "must not exceed 'max_tokens'", beside={"max_tokens": 4}),
    Row("stream_options", {"include_usage": True}, "needs 'stream'"),
    Row(
        "stream_options",
        {"include_usage": 1},
        "a boolean",
        "stream_options.include_usage",
        beside={"stream": True},
    ),
    Row(
        *(
            "stream_options",
            {"continuous_usage_stats": "x"},
            "a boolean",
            "stream_options.continuous_usage_stats",
        ),
        beside={"stream": True},
    ),
    Row("prompt_logprobs", 1, "not streamed", beside={"stream": True}),
    Row("top_logprobs", 5, "needs 'logprobs'", at="chat"),
    Row(
        "continue_final_message",
        True,
        "exclude each other",
        at="chat",
        beside={"add_generation_prompt": True},
    ),
    Row("chat_template_kwargs", {"messages": []}, "must not set messages", "messages", at="chat"),
    Row("max_tokens", 0, "must be at least 1, unless", at="completion"),
    Row("n", 100, "At most 256 answers", at="completion", beside={"prompt": ["a"] * 3}),
    Row("best_of", 2, "only a value equal to 'n'", at="completion", code=UNSUPPORTED),
    Row("response_format", {"type": "yaml"}, "expected one of text", "response_format.type"),
    Row("structured_outputs", {}, "needs exactly one of"),
    Row(
        "structured_outputs",
        {"choice": ["a"]},
        "exclude each other",
        beside={"response_format": {"type": "json_object"}},
    ),
]

_PROMPTS = [
    Row("prompt", 5, "expected a string or a non-empty array"),
    Row("prompt", [], "expected a string or a non-empty array"),
    Row("prompt", {}, "expected a string or a non-empty array"),
    Row("prompt", [[]], "expected 1 to", "prompt[0]"),
    Row("prompt", ["a", 1], "expected a string", "prompt[1]"),
    Row("prompt", [1, "a"], "expected an integer", "prompt[1]"),
    Row("prompt", [True], "expected an array", "prompt[0]"),
    Row("prompt", [[1], "a"], "expected an array", "prompt[1]"),
    Row("prompt", [-1], "between 0 and", "prompt[0]"),
    Row("prompt", ["a"] * 257, "1 to 256 elements"),
    Row("prompt", [512], "this model has 512 tokens"),
    Row("prompt", [[1], [600]], "this model has 512 tokens", "prompt[1]"),
    Row("prompt", "", "the prompt is empty", beside={"add_special_tokens": False}),
    Row("prompt", None, "Missing required parameter", code="missing_required_parameter"),
    Row("prompt", [5] * 1024, "1024 tokens", code="context_length_exceeded"),
]

_MESSAGES = [
    Row("messages", None, "Missing required parameter", code="missing_required_parameter"),
    Row("messages", [], "expected 1 to 8192 elements"),
    Row("messages", {}, "expected an array"),
    Row("messages", ["hi"], "expected an object", "messages[0]"),
    Row("messages", [{"role": "user", "content": "x"}] * 8193, "expected 1 to 8192 elements"),
    Row("messages", [{"content": "x"}], "Missing", "messages[0].role", code="missing_required_parameter"),
    Row("messages", [{"role": "pirate", "content": "x"}], "expected one of system", "messages[0].role"),
    Row("messages", [{"role": "user"}], "Missing", "messages[0].content", code="missing_required_parameter"),
    Row("messages", [{"role": "user", "content": 5}], "expected a string or an array", "messages[0].content"),
    Row(
        *("messages", [{"role": "user", "content": [{"type": "image_url"}]}], "this model reads text only"),
        "messages[0].content[0].type",
    ),
    Row(
        *("messages", [{"role": "user", "content": [{"type": "text", "text": 1}]}], "expected a string"),
        "messages[0].content[0].text",
    ),
    Row("messages", [{"role": "user", "content": "x", "name": 1}], "expected a string", "messages[0].name"),
]

_F: dict[str, Any] = {"type": "function", "function": {"name": "f"}}
_NAMED_G = {"type": "function", "function": {"name": "g"}}
_TOOLS = [
    Row("tools", {}, "expected an array"),
    Row("tools", [5], "expected an object", "tools[0]"),
    Row("tools", [{}], "Missing", "tools[0].type", code="missing_required_parameter"),
    Row("tools", [{"type": "custom"}], "only tools of type", "tools[0].type", code=UNSUPPORTED),
    Row("tools", [_F, _F], "two functions 'f'", "tools[1].function.name"),
    Row("tools", [_F] * 129, "0 to 128 elements"),
    Row("tool_choice", "maybe", "expected one of none, auto, required"),
    Row("tool_choice", 5, "expected a string or an object"),
    Row("tool_choice", {}, "expected function or allowed_tools", "tool_choice.type"),
    Row("tool_choice", "required", "there are no 'tools'"),
    Row("tool_choice", _NAMED_G, "no tool is named 'g'", beside={"tools": [_F]}),
    Row("parallel_tool_calls", 1, "expected a boolean"),
    Row("parallel_tool_calls", "no", "expected a boolean"),
]

ROWS: list[Row] = [
    *_ranges(),
    *_types(),
    *_LISTS,
    *_TOGETHER,
    Row("model", None, "Missing required parameter", code="missing_required_parameter"),
    *[row._replace(at="completion") for row in _PROMPTS],
    *[row._replace(at="chat") for row in (*_MESSAGES, *_TOOLS)],
]
