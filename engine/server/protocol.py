"""Request bodies of the OpenAI dialect: strict parsing into frozen types.

Single fields are read by the tables of `field_tables`; here are the requests as a whole, and the rules that involve
more than one field. Knows no tokens: ids are compared with the vocabulary later, in `admission`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from engine.messages import GrammarSpec
from engine.server import fields, structured
from engine.server.errors import invalid, unsupported
from engine.server.field_tables import (
    CHAT_FIELDS,
    COMMON_FIELDS,
    COMPLETION_FIELDS,
    MAX_SEQUENCES,
    UNSUPPORTED_IN_CHAT,
    UNSUPPORTED_IN_COMPLETIONS,
)
from engine.server.fields import Schema, flag, obj, read_fields, without_effect
from engine.server.json_body import parse_json
from engine.server.messages import ChatMessage
from engine.server.tools import ToolUse, tool_use

_STREAM_OPTIONS = ("include_usage", "continuous_usage_stats")
STREAM_OPTIONS: Schema = {
    "type": ["object", "null"],
    "properties": {name: {"type": ["boolean", "null"]} for name in _STREAM_OPTIONS},
}
"""What `stream_options` may be; with `stream` alone."""


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
    grammar: GrammarSpec | None
    stream: bool
    include_usage: bool
    continuous_usage_stats: bool
    include_stop_str_in_output: bool
    skip_special_tokens: bool
    return_token_ids: bool
    return_tokens_as_token_ids: bool
    num_prompt_logprobs: int | None
    echo: bool
    bad_words: tuple[str, ...]
    add_special_tokens: bool
    cache_salt: str
    priority: int
    ignored: tuple[str, ...]
    """Body fields without effect."""

    @property
    def scores_only(self) -> bool:
        """Nothing is to be generated."""
        return self.max_tokens == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest(GenerationRequest):
    messages: tuple[ChatMessage, ...]
    add_generation_prompt: bool
    continue_final_message: bool
    chat_template_kwargs: dict[str, Any]
    reasoning_effort: str | None
    tools: ToolUse | None
    """None: nothing can be called, and the model is shown no tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest(GenerationRequest):
    prompts: tuple[str | tuple[int, ...], ...]


RequestT = TypeVar("RequestT", bound=GenerationRequest)


def parse_chat(raw: bytes) -> ChatRequest:
    body = parse_json(raw)
    fields.refuse_unsupported(body, UNSUPPORTED_IN_CHAT)
    values = _read_common(body) | read_fields(body, CHAT_FIELDS)
    longest, top = values.pop("max_completion_tokens"), values.pop("top_logprobs")
    values["max_tokens"] = values["max_tokens"] if longest is None else longest
    wants_logprobs = values.pop("logprobs")
    if top and not wants_logprobs:
        raise invalid("'top_logprobs' needs 'logprobs' to be true.", "top_logprobs")
    if values["continue_final_message"] and body.get("add_generation_prompt"):
        raise invalid(
            "'continue_final_message' and 'add_generation_prompt' exclude each other.",
            "continue_final_message",
        )
    tools = tool_use(*map(values.pop, ("tools", "tool_choice", "parallel_tool_calls")))
    known = (*COMMON_FIELDS, *CHAT_FIELDS, *UNSUPPORTED_IN_CHAT)
    request = ChatRequest(
        **values,
        num_logprobs=(top or 0) if wants_logprobs else None,
        tools=tools,
        **_common_rest(body, known),
    )
    return _checked(request, 1)


def parse_completion(raw: bytes) -> CompletionRequest:
    body = parse_json(raw)
    fields.refuse_unsupported(body, UNSUPPORTED_IN_COMPLETIONS)
    values = _read_common(body) | read_fields(body, COMPLETION_FIELDS)
    prompts, best_of = values.pop("prompt"), values.pop("best_of")
    if best_of is not None and best_of != values["n"]:
        raise unsupported("best_of", "only a value equal to 'n' is served.")
    known = (*COMMON_FIELDS, *COMPLETION_FIELDS, *UNSUPPORTED_IN_COMPLETIONS)
    num_logprobs = values.pop("logprobs")
    request = CompletionRequest(
        **values, prompts=prompts, num_logprobs=num_logprobs, **_common_rest(body, known)
    )
    if request.scores_only and not request.echo and request.num_prompt_logprobs is None:
        message = "'max_tokens' must be at least 1, unless 'echo' or 'prompt_logprobs' ask for the prompt."
        raise invalid(message, "max_tokens")
    return _checked(request, len(prompts))


def _read_common(body: Mapping[str, Any]) -> dict[str, Any]:
    """What both endpoints read, under the names of `GenerationRequest`."""
    values = read_fields(body, COMMON_FIELDS)
    values["grammar"] = structured.only_one(values.pop("response_format"), values.pop("structured_outputs"))
    values["num_prompt_logprobs"] = values.pop("prompt_logprobs")
    return values


def _common_rest(body: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """Stream options, and the names of the fields that nothing reads."""
    given = body.get("stream_options")
    options = {} if given is None else obj("stream_options", given)
    if options and not body.get("stream"):
        raise invalid("'stream_options' needs 'stream' to be true.", "stream_options")
    values = {
        name: False if options.get(name) is None else flag(f"stream_options.{name}", options[name])
        for name in _STREAM_OPTIONS
    }
    skipped = without_effect(body, frozenset(known))
    skipped += [f"stream_options.{name}" for name in options if name not in _STREAM_OPTIONS]
    ignored = tuple(name for name in skipped if name != "stream_options")
    return {
        "include_usage": values["include_usage"] or values["continuous_usage_stats"],
        "continuous_usage_stats": values["continuous_usage_stats"],
        "ignored": ignored,
    }


def _checked(request: RequestT, num_prompts: int) -> RequestT:
    """Rules that involve more than one field."""
    if request.stream and request.num_prompt_logprobs is not None:
        raise invalid("'prompt_logprobs' are not streamed: set 'stream' to false.", "prompt_logprobs")
    if num_prompts * request.n > MAX_SEQUENCES:
        raise invalid(f"At most {MAX_SEQUENCES} answers in one request ('n' × prompts).", "n")
    if request.max_tokens is not None and request.min_tokens > request.max_tokens:
        raise invalid("'min_tokens' must not exceed 'max_tokens'.", "min_tokens")
    return request
