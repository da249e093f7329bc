"""`tools`, `tool_choice` and `parallel_tool_calls` of a chat request → which functions may, or must, be called.

Readers for the validation tables, and the rule that joins the three fields. Knows neither the model's way of calling
nor its chat template.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import orjson

from engine.server import structured
from engine.server.errors import invalid, missing, unsupported
from engine.server.fields import IDENTIFIER, Reader, Schema, identifier, items, kind_of, obj, shown, text

MAX_TOOLS = 128
MAX_TOOL_BYTES = 512 << 10
"""All schemas of a request together."""
_MODES = ("none", "auto", "required")
_read_description = text(16 << 10)

Mode = Literal["auto", "required", "named"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function that the model may call."""

    name: str
    description: str | None
    parameters: dict[str, Any] | None
    """A JSON schema; None: any arguments, or none."""
    schema_bytes: int
    strict: bool
    """Arguments follow the schema exactly, also when the model calls of its own accord."""

    @property
    def document(self) -> dict[str, Any]:
        """As chat templates print it, in the order that models were trained on."""
        function: dict[str, Any] = {"name": self.name}
        if self.description is not None:
            function["description"] = self.description
        if self.parameters is not None:
            function["parameters"] = self.parameters
        return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class ToolChoice:
    mode: Literal["none", "auto", "required", "named"]
    names: tuple[str, ...] = ()
    """Of the function named, or of those allowed; empty: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """What a request says of tools, if any may be called."""

    functions: tuple[Function, ...]
    """All of them, as the model is shown them."""
    mode: Mode
    allowed: tuple[Function, ...]
    """Those that may be called this time."""
    parallel: bool
    """More than one call in an answer."""

    @property
    def schema_bytes(self) -> int:
        return sum(function.schema_bytes for function in self.functions)

    @property
    def documents(self) -> tuple[dict[str, Any], ...]:
        return tuple(function.document for function in self.functions)


def _read_tools(name: str, value: Any) -> tuple[Function, ...]:
    functions: tuple[Function, ...] = _read_each(name, value)
    seen: set[str] = set()
    for index, function in enumerate(functions):
        if function.name in seen:
            path = f"{name}[{index}].function.name"
            raise invalid(f"Invalid value for '{path}': there are two functions {function.name!r}.", path)
        seen.add(function.name)
    if sum(function.schema_bytes for function in functions) > MAX_TOOL_BYTES:
        raise invalid(f"Invalid value for '{name}': at most {MAX_TOOL_BYTES} bytes of schemas.", name)
    return functions


def _read_tool_choice(name: str, value: Any) -> ToolChoice:
    if isinstance(value, str):
        if value not in _MODES:
            message = f"Invalid value for '{name}': expected one of {', '.join(_MODES)}, got {shown(value)}."
            raise invalid(message, name)
        return ToolChoice(value)  # type: ignore[arg-type]  # one of the modes
    if not isinstance(value, dict):
        raise invalid(
            f"Invalid type for '{name}': expected a string or an object, got {kind_of(value)}.", name
        )
    match value.get("type"):
        case "function":
            return ToolChoice("named", (_function_name(name, value),))
        case "allowed_tools":
            return _read_allowed(f"{name}.allowed_tools", value.get("allowed_tools"))
        case kind:
            message = (
                f"Invalid value for '{name}.type': expected function or allowed_tools, got {shown(kind)}."
            )
            raise invalid(message, f"{name}.type")


def tool_use(functions: tuple[Function, ...], choice: ToolChoice | None, parallel: bool) -> ToolUse | None:
    """The three fields together; None: nothing can be called. Without a choice, the model chooses."""
    if choice is None:
        choice = ToolChoice("auto")
    if not functions:
        if choice.mode in ("required", "named") or choice.names:
            raise invalid("'tool_choice' asks for a call, but there are no 'tools'.", "tool_choice")
        return None
    if choice.mode == "none":
        return None
    known = {function.name for function in functions}
    for name in choice.names:
        if name not in known:
            raise invalid(f"Invalid value for 'tool_choice': no tool is named {shown(name)}.", "tool_choice")
    return ToolUse(
        functions=functions,
        mode=choice.mode,
        allowed=tuple(one for one in functions if not choice.names or one.name in choice.names),
        parallel=parallel and choice.mode != "named",
    )


def _read_tool(path: str, value: Any) -> Function:
    tool = obj(path, value)
    kind = tool.get("type")
    if kind is None:
        raise missing(f"{path}.type")
    if kind != "function":
        raise unsupported(f"{path}.type", f"only tools of type 'function' are served, not {shown(kind)}.")
    if tool.get("function") is None:
        raise missing(f"{path}.function")
    path = f"{path}.function"
    function = obj(path, tool["function"])
    name = identifier(f"{path}.name", function.get("name"))
    description, parameters = function.get("description"), function.get("parameters")
    if not isinstance(function.get("strict"), bool | None):
        raise invalid(f"Invalid type for '{path}.strict': expected a boolean.", f"{path}.strict")
    size = 0
    if parameters is not None:
        obj(f"{path}.parameters", parameters)
        if parameters.get("type", "object") != "object":
            where = f"{path}.parameters.type"
            raise invalid(f"Invalid value for '{where}': arguments are an object.", where)
        size = len(orjson.dumps(parameters))
        if size > structured.MAX_SCHEMA_BYTES:
            where = f"{path}.parameters"
            message = f"Invalid value for '{where}': at most {structured.MAX_SCHEMA_BYTES} bytes of schema."
            raise invalid(message, where)
    return Function(
        name=name,
        description=None if description is None else _read_description(f"{path}.description", description),
        parameters=parameters,
        schema_bytes=size,
        strict=bool(function.get("strict")),
    )


def _read_allowed(path: str, value: Any) -> ToolChoice:
    """OpenAI's way to allow some of the tools without changing the prompt."""
    if value is None:
        raise missing(path)
    body = obj(path, value)
    mode = body.get("mode")
    if mode not in ("auto", "required"):
        raise invalid(
            f"Invalid value for '{path}.mode': expected auto or required, got {shown(mode)}.", f"{path}.mode"
        )
    names = _read_allowed_tools(f"{path}.tools", body.get("tools"))
    return ToolChoice(mode, tuple(dict.fromkeys(names)))


def _read_allowed_tool(path: str, value: Any) -> str:
    return _function_name(path, obj(path, value))


def _function_name(path: str, value: dict[str, Any]) -> str:
    if value.get("function") is None:
        raise missing(f"{path}.function")
    name = obj(f"{path}.function", value["function"]).get("name")
    if name is None:
        raise missing(f"{path}.function.name")
    return str(text(64)(f"{path}.function.name", name))


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "required": list(properties), "properties": properties}


def _const(value: str) -> Schema:
    return {"type": "string", "enum": [value]}


_FUNCTION: Schema = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": IDENTIFIER,
        "description": {"anyOf": [_read_description.schema, {"type": "null"}]},
        "parameters": {"type": ["object", "null"], "properties": {"type": _const("object")}},
        "strict": {"type": ["boolean", "null"]},
    },
}
_NAMED = _object(function=_object(name={"type": "string", "maxLength": 64}))
_read_each = items(MAX_TOOLS, Reader(_read_tool, _object(type=_const("function"), function=_FUNCTION)))
_read_allowed_tools = items(MAX_TOOLS, Reader(_read_allowed_tool, _NAMED), min_items=1)
_ALLOWED = _object(mode={"type": "string", "enum": ["auto", "required"]}, tools=_read_allowed_tools.schema)
_CHOICE: Schema = {
    "anyOf": [
        {"type": "string", "enum": list(_MODES)},
        _object(type=_const("function"), function=_NAMED["properties"]["function"]),
        _object(type=_const("allowed_tools"), allowed_tools=_ALLOWED),
    ]
}
read_tools = Reader(_read_tools, _read_each.schema)
read_tool_choice = Reader(_read_tool_choice, _CHOICE)
