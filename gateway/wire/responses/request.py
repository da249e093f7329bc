"""A request for a response → a chat request, and the fields that the answer repeats.

Fields that both dialects have, and those that nobody here knows, go along as they came. What asks for state or for a
tool that the service would have to run is 400 `unsupported_parameter`, named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from gateway.errors import InvalidRequest, InvalidValue, MissingParameter, UnsupportedParameter
from gateway.wire.request import CHAT, RESPONSES, GenerationRequest, parse_generation, read_object
from gateway.wire.responses.items import messages_of

__all__ = ["AskedResponse", "parse_response"]

STATEFUL = (
    "previous_response_id",
    "conversation",
    "prompt",
    "max_tool_calls",
    "moderation",
    "context_management",
)
"""Without a value they ask for nothing."""
FIXED = {
    "background": (False,),
    "store": (False,),
    "truncation": ("disabled",),
    "service_tier": ("auto", "default"),
    "include": ([],),
    "top_logprobs": (0,),
}
"""What they may be, beside null."""
OWN = frozenset(
    {
        *STATEFUL,
        *FIXED,
        "input",
        "instructions",
        "max_output_tokens",
        "metadata",
        "reasoning",
        "stream_options",
        "text",
    }
    | {"tool_choice", "tools"}
)
REPEATED = (
    *("instructions", "metadata", "temperature", "top_p", "max_output_tokens", "user", "safety_identifier"),
    "prompt_cache_key",
)


@dataclass(frozen=True, slots=True)
class AskedResponse:
    request: GenerationRequest
    repeated: Mapping[str, Any]
    """Fields of the request that a response has too."""


def parse_response(raw: bytes) -> AskedResponse:
    fields = read_object(raw)
    if fields.get("model") is None:
        raise MissingParameter("model")
    _refuse_state(fields)
    chat = {name: value for name, value in fields.items() if name not in OWN}
    chat["messages"] = messages_of(fields.get("input"), fields.get("instructions"))
    renamed = {
        "max_completion_tokens": fields.get("max_output_tokens"),
        "tools": _tools(fields.get("tools")),
        "tool_choice": _tool_choice(fields.get("tool_choice")),
        "reasoning_effort": _reasoning(fields.get("reasoning")),
        **_text(fields.get("text")),
    }
    chat |= {name: value for name, value in renamed.items() if value is not None}
    if fields.get("stream"):
        chat["stream_options"] = {"include_usage": True}
    request = replace(_chat(chat), endpoint=RESPONSES)
    return AskedResponse(request, _repeated(fields))


def _chat(chat: Mapping[str, Any]) -> GenerationRequest:
    """A mistake in a field that was called otherwise is told by the name that the caller used."""
    try:
        return parse_generation(CHAT, orjson.dumps(chat))
    except InvalidRequest as error:
        raise InvalidRequest(error.message, _NAMES.get(error.param or "", error.param)) from None
    except InvalidValue as error:
        param = error.param or ""
        name = _NAMES.get(param, param)
        raise InvalidValue(error.message.replace(param, name), name) from None


def _refuse_state(fields: Mapping[str, Any]) -> None:
    for name in STATEFUL:
        if fields.get(name) is not None:
            raise UnsupportedParameter(name)
    for name, allowed in FIXED.items():
        if fields.get(name) is not None and fields[name] not in allowed:
            raise UnsupportedParameter(name)
    if fields.get("n") not in (None, 1):
        raise UnsupportedParameter("n")


def _tools(tools: Any) -> list[dict[str, Any]] | None:
    if tools is None or tools == []:
        return None
    if not isinstance(tools, list):
        raise InvalidRequest("'tools' must be an array.", "tools")
    return [_tool(tool, f"tools[{number}]") for number, tool in enumerate(tools)]


def _tool(tool: Any, place: str) -> dict[str, Any]:
    if not isinstance(tool, dict):
        raise InvalidRequest(f"'{place}' must be an object.", place)
    if tool.get("type") != "function":
        raise UnsupportedParameter(f"{place}.type")
    if not isinstance(tool.get("name"), str):
        raise MissingParameter(f"{place}.name")
    known = ("name", "description", "parameters", "strict")
    return {"type": "function", "function": {key: tool[key] for key in known if tool.get(key) is not None}}


def _tool_choice(choice: Any) -> Any:
    if choice is None or isinstance(choice, str):
        return choice
    if isinstance(choice, dict) and choice.get("type") == "function":
        return {"type": "function", "function": {"name": choice.get("name")}}
    raise UnsupportedParameter("tool_choice")


def _reasoning(reasoning: Any) -> Any:
    if reasoning is None:
        return None
    if not isinstance(reasoning, dict):
        raise InvalidRequest("'reasoning' must be an object.", "reasoning")
    for name, value in reasoning.items():
        if name != "effort" and value is not None:
            raise UnsupportedParameter(f"reasoning.{name}")
    return reasoning.get("effort")


def _text(text: Any) -> dict[str, Any]:
    if text is None:
        return {}
    if not isinstance(text, dict):
        raise InvalidRequest("'text' must be an object.", "text")
    wanted = {"type": "text"} if text.get("format") is None else text["format"]
    if not isinstance(wanted, dict):
        raise InvalidRequest("'text.format' must be an object.", "text.format")
    kind = wanted.get("type")
    if kind not in ("text", "json_object", "json_schema"):
        raise InvalidValue("'text.format.type' must be text, json_object or json_schema.", "text.format.type")
    found: dict[str, Any] = {"verbosity": text.get("verbosity")}
    if kind == "json_object":
        found["response_format"] = {"type": kind}
    if kind == "json_schema":
        schema = {name: value for name, value in wanted.items() if name != "type" and value is not None}
        found["response_format"] = {"type": kind, "json_schema": schema}
    return found


def _repeated(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{name: fields.get(name) for name in REPEATED},
        "model": fields["model"],
        "tools": fields.get("tools") or [],
        "tool_choice": fields.get("tool_choice") or "auto",
        "parallel_tool_calls": fields.get("parallel_tool_calls") is not False,
        "text": fields.get("text") or {"format": {"type": "text"}},
        "reasoning": fields.get("reasoning"),
        "background": False,
        "store": False,
        "truncation": "disabled",
        "previous_response_id": None,
    }


_NAMES = {"messages": "input", "max_completion_tokens": "max_output_tokens"}
