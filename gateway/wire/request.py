"""A generation request as the client sent it: the few fields the gateway must read, and all the others.

The engine validates the rest: here a field is checked only if routing, limits or money depend on it. The same
parsed object is rendered for an engine with the changes its dialect asks for; unknown fields travel along.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from gateway.errors import InvalidRequest, InvalidValue, MissingParameter, UnsupportedParameter

__all__ = [
    "CHAT",
    "COMPLETIONS",
    "EMBEDDINGS",
    "RESPONSES",
    "Endpoint",
    "GenerationRequest",
    "canonical_prompt",
]
__all__ += ["parse_generation", "read_object", "render"]

Endpoint = Literal["chat.completions", "completions", "embeddings", "responses"]
CHAT: Endpoint = "chat.completions"
COMPLETIONS: Endpoint = "completions"
EMBEDDINGS: Endpoint = "embeddings"
RESPONSES: Endpoint = "responses"
"""Asked of engines as a chat."""

CHOICES_MAX = 128
PROMPTS_MAX = 2048
TEXT_PARTS = frozenset({"text", "input_text", "refusal"})
OUTPUT_TOKENS_MAX = 1 << 20
# The serialiser follows 254 levels, the parser 1,024: what cannot be sent on must not be admitted.
DEPTH_MAX = 250
# What a chat template may add around the messages: role markers, a default system prompt, BOS.
TEMPLATE_TOKENS_MAX = 256


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    endpoint: Endpoint
    model: str
    stream: bool
    include_usage: bool  # the client asked for the usage chunk
    max_output_tokens: int | None  # per choice, as the client asked
    choices: int  # answers in all: prompts × n
    messages: int  # parts that a template wraps: messages, prompts, or inputs
    body_bytes: int
    fields: Mapping[str, Any]  # the whole body, unknown fields included

    @property
    def prompt_tokens_max(self) -> int:
        """No tokenizer needed: a token is at least one byte, and JSON never shortens a text."""
        return self.body_bytes + TEMPLATE_TOKENS_MAX

    @property
    def is_sampled(self) -> bool:
        """Whether tokens are drawn, so that there is something for a seed to decide."""
        return self.endpoint != EMBEDDINGS

    @property
    def user(self) -> str | None:
        value = self.fields.get("user")
        return value if isinstance(value, str) else None


def parse_generation(endpoint: Endpoint, raw: bytes) -> GenerationRequest:
    fields = read_object(raw)
    model = fields.get("model")
    if model is None:
        raise MissingParameter("model")
    if not isinstance(model, str) or not model:
        raise InvalidRequest("'model' must be a non-empty string.", "model")
    stream = _flag(fields, "stream")
    if stream and endpoint == EMBEDDINGS:
        raise UnsupportedParameter("stream")
    parts = _parts(endpoint, fields)
    return GenerationRequest(
        endpoint=endpoint,
        model=model,
        stream=stream,
        include_usage=_include_usage(fields, stream),
        max_output_tokens=0 if endpoint == EMBEDDINGS else _max_output(endpoint, fields),
        choices=_choices(endpoint, fields, parts),
        messages=parts,
        body_bytes=len(raw),
        fields=fields,
    )


def render(request: GenerationRequest, changes: Mapping[str, Any], dropped: frozenset[str]) -> bytes:
    """The body for an engine: the client's fields without `dropped`, then `changes`."""
    fields = {name: value for name, value in request.fields.items() if name not in dropped}
    fields.update(changes)
    return orjson.dumps(fields)


def canonical_prompt(request: GenerationRequest) -> bytes:
    """What the model reads, in the order of the templates: tools, then messages; or the prompt. The same content gives
    the same bytes, and a conversation that went on begins with what it was before."""
    if request.endpoint not in (CHAT, RESPONSES):
        text = request.fields.get("prompt", request.fields.get("input"))
        return orjson.dumps(text, option=orjson.OPT_SORT_KEYS)
    tools = request.fields.get("tools")
    messages = orjson.dumps(request.fields.get("messages"), option=orjson.OPT_SORT_KEYS)
    return messages if not tools else orjson.dumps(tools, option=orjson.OPT_SORT_KEYS) + messages


def read_object(raw: bytes) -> dict[str, Any]:
    try:
        fields = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"We could not parse the JSON body of your request: {error}.") from error
    if not isinstance(fields, dict):
        raise InvalidRequest("The body must be a JSON object.")
    if raw.count(b"[") + raw.count(b"{") > DEPTH_MAX and not _can_be_sent_on(fields):
        raise InvalidRequest("The JSON body of your request is nested too deeply.")
    return fields


def _can_be_sent_on(fields: dict[str, Any]) -> bool:
    """Brackets may also be text, so only the serialiser itself knows."""
    try:
        orjson.dumps([fields])
    except TypeError:
        return False
    return True


def _flag(fields: dict[str, Any], name: str) -> bool:
    value = fields.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise InvalidRequest(f"'{name}' must be a boolean.", name)
    return value


def _integer(fields: dict[str, Any], name: str, low: int, high: int, default: int) -> int:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidRequest(f"'{name}' must be an integer.", name)
    if not low <= value <= high:
        raise InvalidValue(f"'{name}' must be between {low} and {high}, not {value}.", name)
    return value


def _include_usage(fields: dict[str, Any], stream: bool) -> bool:
    options = fields.get("stream_options")
    if options is None:
        return False
    if not isinstance(options, dict):
        raise InvalidRequest("'stream_options' must be an object.", "stream_options")
    if not stream:
        raise InvalidValue("'stream_options' is only allowed when 'stream' is true.", "stream_options")
    asked = options.get("include_usage")
    if asked is not None and not isinstance(asked, bool):
        raise InvalidRequest(
            "'stream_options.include_usage' must be a boolean.", "stream_options.include_usage"
        )
    return bool(asked)


def _max_output(endpoint: Endpoint, fields: dict[str, Any]) -> int | None:
    """`max_completion_tokens` wins over the older name, as at OpenAI. A completion may ask for 0: its prompt is scored."""
    if endpoint == COMPLETIONS:
        return (
            None
            if fields.get("max_tokens") is None
            else _integer(fields, "max_tokens", 0, OUTPUT_TOKENS_MAX, 1)
        )
    for name in ("max_completion_tokens", "max_tokens"):
        if fields.get(name) is not None:
            return _integer(fields, name, 1, OUTPUT_TOKENS_MAX, 1)
    return None


def _choices(endpoint: Endpoint, fields: dict[str, Any], parts: int) -> int:
    if endpoint == EMBEDDINGS:
        return 1
    choices = _integer(fields, "n", 1, CHOICES_MAX, 1)
    if endpoint == CHAT:
        return choices
    if fields.get("best_of") not in (None, choices):  # answers that are made, and not counted
        raise UnsupportedParameter("best_of")
    return parts * choices


def _parts(endpoint: Endpoint, fields: dict[str, Any]) -> int:
    """Messages of a chat, prompts of a completion, inputs to embed: at least one."""
    if endpoint == CHAT:
        messages = fields.get("messages")
        if messages is None:
            raise MissingParameter("messages")
        if not isinstance(messages, list):
            raise InvalidRequest("'messages' must be an array.", "messages")
        if not messages:
            raise InvalidValue("'messages' must not be empty.", "messages")
        for index, message in enumerate(messages):
            _check_message(index, message)
        return len(messages)
    return _texts(fields, "input" if endpoint == EMBEDDINGS else "prompt")


def _check_message(index: int, message: Any) -> None:
    """Only the kinds of values: there are servers that fail at others, which would pass for a fault of theirs."""
    if not isinstance(message, dict):
        raise InvalidRequest(f"'messages[{index}]' must be an object.", f"messages[{index}]")
    if not isinstance(message.get("role"), str):
        raise InvalidRequest(f"'messages[{index}].role' must be a string.", f"messages[{index}].role")
    content, name = message.get("content"), f"messages[{index}].content"
    if not isinstance(content, str | list | None):
        raise InvalidRequest(f"'{name}' must be a string or an array.", name)
    if isinstance(content, list):
        for number, part in enumerate(content):
            _check_part(part, f"{name}[{number}]")


def _check_part(part: Any, name: str) -> None:
    """Text only: an engine would fetch an image's address from where it stands, and its bytes say nothing of its tokens."""
    if not isinstance(part, dict):
        raise InvalidRequest(f"'{name}' must be an object.", name)
    kind = part.get("type")
    if not isinstance(kind, str) or kind not in TEXT_PARTS:
        raise UnsupportedParameter(f"{name}.type")


def _texts(fields: dict[str, Any], name: str) -> int:
    """How many texts the field holds: one string or one list of token ids, or a list of such."""
    texts = fields.get(name)
    if texts is None:
        raise MissingParameter(name)
    if isinstance(texts, str):
        return 1
    if not isinstance(texts, list):
        raise InvalidRequest(f"'{name}' must be a string or an array.", name)
    if not texts:
        raise InvalidValue(f"'{name}' must not be empty.", name)
    kinds = set(map(type, texts))
    if kinds == {int}:
        return 1
    if len(texts) > PROMPTS_MAX:
        raise InvalidValue(f"'{name}' must not hold more than {PROMPTS_MAX} texts.", name)
    if kinds != {str} and (kinds != {list} or any(set(map(type, ids)) - {int} for ids in texts)):
        raise InvalidRequest(
            f"'{name}' must hold only strings, only token ids, or only lists of these.", name
        )
    return len(texts)
