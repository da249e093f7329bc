"""Request bodies of the OpenAI dialect: strict parsing into frozen types.

The tables below are the validation: one row per field with its type, range and default. Fields that no row
names are harmless and ignored, and reported to the caller; fields that would change the answer and are not
served are refused by name. Knows no tokens: ids are compared with the vocabulary later, in `admission`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from engine.server import fields
from engine.server.errors import invalid, unsupported
from engine.server.fields import (
    Field,
    Unsupported,
    flag,
    integer,
    items,
    number,
    obj,
    read_fields,
    text,
    token_ids,
)
from engine.server.messages import ChatMessage, read_messages

MAX_SEQUENCES = 256
"""Prompts × n of one request."""
_MAX_TEXT = 16 << 20
_STREAM_OPTIONS = ("include_usage", "continuous_usage_stats")
_LATER = "it is not supported by this server."

COMMON_FIELDS: Mapping[str, Field] = {
    "model": Field(text(256), required=True),
    "temperature": Field(number(0, 2)),
    "top_p": Field(number(0, 1)),
    "top_k": Field(integer(-1, 2**31 - 1)),
    "min_p": Field(number(0, 1)),
    "repetition_penalty": Field(number(0.01, 10)),
    "presence_penalty": Field(number(-2, 2), 0.0),
    "frequency_penalty": Field(number(-2, 2), 0.0),
    "seed": Field(integer(-(2**63))),
    "n": Field(integer(1, 128), 1),
    "stop": Field(fields.stops(16, 512), ()),
    "stop_token_ids": Field(token_ids(128), ()),
    "min_tokens": Field(integer(0, 2**31 - 1), 0),
    "ignore_eos": Field(flag, False),
    "logit_bias": Field(fields.logit_bias(1024), {}),
    "allowed_token_ids": Field(token_ids(1 << 18, min_items=1), ()),
    "stream": Field(flag, False),
    "include_stop_str_in_output": Field(flag, False),
    "skip_special_tokens": Field(flag, True),
    "return_token_ids": Field(flag, False),
    "cache_salt": Field(text(1024), ""),
}

CHAT_FIELDS: Mapping[str, Field] = {
    "messages": Field(read_messages, required=True),
    "max_tokens": Field(integer(1, 2**31 - 1)),
    "max_completion_tokens": Field(integer(1, 2**31 - 1)),
    "logprobs": Field(flag, False),
    "top_logprobs": Field(integer(0, 20)),
    "add_generation_prompt": Field(flag, True),
    "continue_final_message": Field(flag, False),
    "chat_template_kwargs": Field(obj, {}),
}

COMPLETION_FIELDS: Mapping[str, Field] = {
    "max_tokens": Field(integer(1, 2**31 - 1), 16),
    "logprobs": Field(integer(0, 20)),
    "add_special_tokens": Field(flag, True),
}

_UNSUPPORTED: Mapping[str, Unsupported] = {
    "structured_outputs": Unsupported(_LATER),
    "guided_json": Unsupported(_LATER),
    "guided_regex": Unsupported(_LATER),
    "guided_choice": Unsupported(_LATER),
    "guided_grammar": Unsupported(_LATER),
    "prompt_logprobs": Unsupported(_LATER, (0, False)),
    "bad_words": Unsupported(_LATER, ([],)),
    "logits_processors": Unsupported(_LATER, ([],)),
    "use_beam_search": Unsupported(_LATER, (False,)),
    "length_penalty": Unsupported("there is no beam search.", (1, 1.0)),
    "truncate_prompt_tokens": Unsupported(_LATER, (-1,)),
    "response_format": Unsupported("only {'type': 'text'} is served.", ({"type": "text"},)),
}

UNSUPPORTED_IN_CHAT: Mapping[str, Unsupported] = {
    **_UNSUPPORTED,
    "functions": Unsupported("use another model server for function calls.", ([],)),
    "function_call": Unsupported("use another model server for function calls.", ("none",)),
    "audio": Unsupported("this is a text model."),
    "modalities": Unsupported("only ['text'] is served.", (["text"],)),
    "web_search_options": Unsupported("there is no web search."),
    "chat_template": Unsupported("the operator sets the template."),
    "documents": Unsupported(_LATER, ([],)),
    "echo": Unsupported(_LATER, (False,)),
}

UNSUPPORTED_IN_COMPLETIONS: Mapping[str, Unsupported] = {
    **_UNSUPPORTED,
    "echo": Unsupported(_LATER, (False,)),
    "suffix": Unsupported("this model does not fill in the middle.", ("",)),
    "prompt_embeds": Unsupported(_LATER),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """What both generation endpoints have in common. None: the model's default."""

    model: str
    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    repetition_penalty: float | None
    presence_penalty: float
    frequency_penalty: float
    seed: int | None
    n: int
    stop: tuple[str, ...]
    stop_token_ids: tuple[int, ...]
    max_tokens: int | None
    min_tokens: int
    ignore_eos: bool
    logit_bias: dict[int, float]
    allowed_token_ids: tuple[int, ...]
    num_logprobs: int | None
    stream: bool
    include_usage: bool
    continuous_usage_stats: bool
    include_stop_str_in_output: bool
    skip_special_tokens: bool
    return_token_ids: bool
    cache_salt: str
    ignored: tuple[str, ...]
    """Body fields without effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest(GenerationRequest):
    messages: tuple[ChatMessage, ...]
    add_generation_prompt: bool
    continue_final_message: bool
    chat_template_kwargs: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest(GenerationRequest):
    prompts: tuple[str | tuple[int, ...], ...]
    add_special_tokens: bool


RequestT = TypeVar("RequestT", bound=GenerationRequest)


def parse_json(raw: bytes) -> dict[str, Any]:
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise invalid(f"The body is not valid JSON: {error}", None, None) from error
    if not isinstance(body, dict):
        raise invalid(f"The body must be a JSON object, got {fields.kind_of(body)}.", None, None)
    return body


def parse_chat(raw: bytes) -> ChatRequest:
    body = parse_json(raw)
    fields.refuse_unsupported(body, UNSUPPORTED_IN_CHAT)
    consumed = _refuse_tools(body)
    values = read_fields(body, COMMON_FIELDS) | read_fields(body, CHAT_FIELDS)
    longest, top = values.pop("max_completion_tokens"), values.pop("top_logprobs")
    values["max_tokens"] = values["max_tokens"] if longest is None else longest
    wants_logprobs = values.pop("logprobs")
    if top is not None and not wants_logprobs:
        raise invalid("'top_logprobs' needs 'logprobs' to be true.", "top_logprobs")
    if values["continue_final_message"] and body.get("add_generation_prompt"):
        raise invalid(
            "'continue_final_message' and 'add_generation_prompt' exclude each other.",
            "continue_final_message",
        )
    known = (*COMMON_FIELDS, *CHAT_FIELDS, *UNSUPPORTED_IN_CHAT, *consumed)
    request = ChatRequest(
        **values, num_logprobs=(top or 0) if wants_logprobs else None, **_common_rest(body, known)
    )
    return _checked(request, 1)


def parse_completion(raw: bytes) -> CompletionRequest:
    body = parse_json(raw)
    fields.refuse_unsupported(body, UNSUPPORTED_IN_COMPLETIONS)
    values = read_fields(body, COMMON_FIELDS) | read_fields(body, COMPLETION_FIELDS)
    prompts = read_fields(body, {"prompt": Field(_read_prompts, required=True)})["prompt"]
    best_of = read_fields(body, {"best_of": Field(integer(1, 128))})["best_of"]
    if best_of is not None and best_of != values["n"]:
        raise unsupported("best_of", "only a value equal to 'n' is served.")
    known = (*COMMON_FIELDS, *COMPLETION_FIELDS, *UNSUPPORTED_IN_COMPLETIONS, "prompt", "best_of")
    num_logprobs = values.pop("logprobs")
    request = CompletionRequest(
        **values, prompts=prompts, num_logprobs=num_logprobs, **_common_rest(body, known)
    )
    return _checked(request, len(prompts))


def _common_rest(body: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """Stream options, and the names of the fields that nothing reads."""
    options = obj("stream_options", body.get("stream_options") or {})
    if options and not body.get("stream"):
        raise invalid("'stream_options' needs 'stream' to be true.", "stream_options")
    values = {
        name: False if options.get(name) is None else flag(f"stream_options.{name}", options[name])
        for name in _STREAM_OPTIONS
    }
    names = frozenset(known)
    skipped = [name for name, value in body.items() if value is not None and name not in names]
    skipped += [f"stream_options.{name}" for name in options if name not in _STREAM_OPTIONS]
    ignored = tuple(name for name in skipped if name != "stream_options")
    return {
        "include_usage": values["include_usage"] or values["continuous_usage_stats"],
        "continuous_usage_stats": values["continuous_usage_stats"],
        "ignored": ignored,
    }


def _checked(request: RequestT, num_prompts: int) -> RequestT:
    """Rules that involve more than one field."""
    if num_prompts * request.n > MAX_SEQUENCES:
        raise invalid(f"At most {MAX_SEQUENCES} answers in one request ('n' × prompts).", "n")
    if request.max_tokens is not None and request.min_tokens > request.max_tokens:
        raise invalid("'min_tokens' must not exceed 'max_tokens'.", "min_tokens")
    return request


def _refuse_tools(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Tools are accepted as far as they cannot be called. Returns the fields that were looked at."""
    choice, tools = body.get("tool_choice"), body.get("tools")
    if isinstance(choice, dict) or choice not in (None, "none", "auto"):
        raise unsupported("tool_choice", "tool calls are not served; only 'none' is.")
    if tools and choice != "none":
        raise unsupported(
            "tools", "tool calls are not served; send tool_choice 'none' to go on without them."
        )
    return ("tools", "tool_choice") if choice == "none" else ("tool_choice",)


def _read_prompts(name: str, value: Any) -> tuple[str | tuple[int, ...], ...]:
    """A string, an array of strings, an array of token ids, or an array of arrays of token ids."""
    if isinstance(value, str):
        return (text(_MAX_TEXT)(name, value),)
    if not isinstance(value, list) or not value:
        raise invalid(f"Invalid type for '{name}': expected a string or a non-empty array.", name)
    if isinstance(value[0], int) and not isinstance(value[0], bool):
        return (token_ids(1 << 22, min_items=1)(name, value),)
    read = text(_MAX_TEXT) if isinstance(value[0], str) else token_ids(1 << 22, min_items=1)
    prompts: tuple[str | tuple[int, ...], ...] = items(MAX_SEQUENCES, read)(name, value)
    return prompts
