"""The `messages` array of a chat request: roles, text content, and what templates need of tool turns.

Part of the strict parsing (`protocol`). Content parts of type text become one string; any other part is
refused, since this engine reads text only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from engine.server.errors import invalid, missing
from engine.server.fields import Reader, Schema, items, kind_of, obj, shown, text

MAX_MESSAGES = 8192
ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_TEXT_PARTS = {"text": "text", "input_text": "text", "refusal": "refusal"}
_read_text = text(16 << 20)
_read_name = text(256)


@dataclass(frozen=True, slots=True)
class ChatMessage:
    role: str
    content: str | None
    name: str | None = None
    tool_call_id: str | None = None
    tool_calls: tuple[dict[str, Any], ...] = ()
    reasoning: str | None = None
    """Of an assistant's turn; templates show it while a tool is being used."""

    def for_template(self) -> dict[str, Any]:
        """As templates expect it: absent keys stay absent, but content is always a text."""
        turn: dict[str, Any] = {"role": self.role, "content": self.content or ""}
        if self.reasoning is not None:
            turn["reasoning"] = turn["reasoning_content"] = self.reasoning
        if self.name is not None:
            turn["name"] = self.name
        if self.tool_call_id is not None:
            turn["tool_call_id"] = self.tool_call_id
        if self.tool_calls:
            turn["tool_calls"] = list(self.tool_calls)
        return turn


def _read_message(path: str, value: Any) -> ChatMessage:
    message = obj(path, value)
    role = message.get("role")
    if role is None:
        raise missing(f"{path}.role")
    if role not in ROLES:
        raise invalid(
            f"Invalid value for '{path}.role': expected one of {', '.join(ROLES)}, got {shown(role)}.",
            f"{path}.role",
        )
    calls = message.get("tool_calls") if role == "assistant" else None
    tool_calls = () if calls is None else _read_tool_calls(f"{path}.tool_calls", calls)
    content = _read_content(f"{path}.content", message.get("content"))
    if content is None and not tool_calls:
        raise missing(f"{path}.content")
    return ChatMessage(
        role=role,
        content=content,
        name=_optional(path, message, "name"),
        tool_call_id=_optional(path, message, "tool_call_id"),
        tool_calls=tool_calls,
        reasoning=_read_reasoning(path, message) if role == "assistant" else None,
    )


def _optional(path: str, message: dict[str, Any], key: str) -> str | None:
    value = message.get(key)
    return None if value is None else _read_name(f"{path}.{key}", value)


def _read_reasoning(path: str, message: dict[str, Any]) -> str | None:
    """Under either of its names."""
    for key in ("reasoning", "reasoning_content"):
        if message.get(key) is not None:
            return str(_read_text(f"{path}.{key}", message[key]))
    return None


def _read_content(path: str, value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return str(_read_text(path, value))
    if isinstance(value, list):
        return "\n".join(_read_parts(path, value))
    raise invalid(f"Invalid type for '{path}': expected a string or an array, got {kind_of(value)}.", path)


def _read_part(path: str, value: Any) -> str:
    part = obj(path, value)
    kind = part.get("type")
    key = _TEXT_PARTS.get(kind) if isinstance(kind, str) else None
    if key is None:
        raise invalid(
            f"Invalid value for '{path}.type': this model reads text only, got {shown(kind)}.",
            f"{path}.type",
        )
    if part.get(key) is None:
        raise missing(f"{path}.{key}")
    return str(_read_text(f"{path}.{key}", part[key]))


def _read_tool_call(path: str, value: Any) -> dict[str, Any]:
    """A past call, its arguments as an object where they are one: templates print them as JSON."""
    call = obj(path, value)
    function = obj(f"{path}.function", call.get("function"))
    name = _read_name(f"{path}.function.name", function.get("name"))
    arguments = function.get("arguments")
    if not isinstance(arguments, dict | str | None):
        where = f"{path}.function.arguments"
        raise invalid(f"Invalid type for '{where}': expected a string, got {kind_of(arguments)}.", where)
    arguments = _parsed(arguments) if isinstance(arguments, str) else arguments or {}
    return {
        "id": _optional(path, call, "id"),
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def _parsed(arguments: str) -> dict[str, Any] | str:
    """What a model broke off or misspelt stays as it was."""
    if not arguments.strip():
        return {}
    try:
        parsed = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return arguments
    return parsed if isinstance(parsed, dict) else arguments


def _nullable(*schemas: Schema) -> Schema:
    return {"anyOf": [*schemas, {"type": "null"}]}


def _message_schema() -> Schema:
    """Assistants may say nothing where they call; what they alone can have is not looked at in others' turns."""
    content = (_read_text.schema, _read_parts.schema)
    names = {"name": _nullable(_read_name.schema), "tool_call_id": _nullable(_read_name.schema)}
    others = [role for role in ROLES if role != "assistant"]
    other = {"role": {"type": "string", "enum": others}, "content": {"anyOf": list(content)}, **names}
    assistant = {
        "role": {"type": "string", "enum": ["assistant"]},
        "content": _nullable(*content),
        **names,
        "tool_calls": _nullable(_read_tool_calls.schema),
        "reasoning": _nullable(_read_text.schema),
        "reasoning_content": _nullable(_read_text.schema),
    }
    return {
        "anyOf": [
            {"type": "object", "title": "Turn", "required": ["role", "content"], "properties": other},
            {"type": "object", "title": "AssistantTurn", "required": ["role"], "properties": assistant},
        ]
    }


_PART: Schema = {
    "anyOf": [
        {
            "type": "object",
            "required": ["type", key],
            "properties": {
                "type": {"type": "string", "enum": [kind for kind, at in _TEXT_PARTS.items() if at == key]},
                key: _read_text.schema,
            },
        }
        for key in dict.fromkeys(_TEXT_PARTS.values())
    ]
}
_CALL: Schema = {
    "type": "object",
    "required": ["function"],
    "properties": {
        "id": _nullable(_read_name.schema),
        "function": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": _read_name.schema,
                "arguments": _nullable({"type": "string"}, {"type": "object"}),
            },
        },
    },
}
_read_parts = items(4096, Reader(_read_part, _PART))
_read_tool_calls = items(128, Reader(_read_tool_call, _CALL))
read_messages = items(MAX_MESSAGES, Reader(_read_message, _message_schema()), min_items=1)
"""The `messages` of a body → `ChatMessage`s."""
