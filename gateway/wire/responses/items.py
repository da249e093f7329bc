"""Input items → the messages of a chat. Text only; what was reasoned in earlier turns is left out, as templates do."""

from __future__ import annotations

from typing import Any

from gateway.errors import InvalidRequest, InvalidValue, MissingParameter, UnsupportedParameter

__all__ = ["messages_of"]

ROLES = ("user", "assistant", "system", "developer")
Message = dict[str, Any]


def messages_of(given: Any, instructions: Any) -> list[Message]:
    messages: list[Message] = []
    if instructions is not None:
        if not isinstance(instructions, str):
            raise InvalidRequest("'instructions' must be a string.", "instructions")
        messages.append({"role": "system", "content": instructions})
    if given is None:
        raise MissingParameter("input")
    if isinstance(given, str):
        return [*messages, {"role": "user", "content": given}]
    if not isinstance(given, list):
        raise InvalidRequest("'input' must be a string or an array.", "input")
    if not given:
        raise InvalidValue("'input' must not be empty.", "input")
    for number, item in enumerate(given):
        _add(messages, item, f"input[{number}]")
    return messages


def _add(messages: list[Message], item: Any, place: str) -> None:
    if not isinstance(item, dict):
        raise InvalidRequest(f"'{place}' must be an object.", place)
    kind = item.get("type") or "message"
    if kind == "message":
        _add_message(messages, _message(item, place))
    elif kind == "function_call":
        _add_call(messages, item, place)
    elif kind == "function_call_output":
        call_id = _text(item, "call_id", place)
        output = _content(item.get("output"), f"{place}.output")
        messages.append({"role": "tool", "tool_call_id": call_id, "content": output})
    elif kind != "reasoning":
        raise UnsupportedParameter(f"{place}.type")


def _message(item: Message, place: str) -> Message:
    role = item.get("role")
    if role not in ROLES:
        raise InvalidValue(f"'{place}.role' must be one of {', '.join(ROLES)}.", f"{place}.role")
    return {"role": role, "content": _content(item.get("content"), f"{place}.content")}


def _add_message(messages: list[Message], message: Message) -> None:
    """Words of the assistant's that follow its calls belong to the turn of the calls: between that and the answers to
    the calls a chat has room for nothing, and engines refuse what stands there."""
    turn = messages[-1] if messages else {}
    if message["role"] != "assistant" or "tool_calls" not in turn:
        messages.append(message)
    elif turn["content"] is None:
        turn["content"] = message["content"]
    else:
        turn["content"] = _parts_of(turn["content"]) + _parts_of(message["content"])


def _parts_of(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _add_call(messages: list[Message], item: Message, place: str) -> None:
    """Calls that follow each other, or the assistant's words, are one turn."""
    function = {"name": _text(item, "name", place), "arguments": _text(item, "arguments", place)}
    call = {"id": _text(item, "call_id", place), "type": "function", "function": function}
    if messages and messages[-1]["role"] == "assistant":
        messages[-1].setdefault("tool_calls", []).append(call)
    else:
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})


def _content(content: Any, place: str) -> Any:
    if content is None:
        raise MissingParameter(place)
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise InvalidRequest(f"'{place}' must be a string or an array.", place)
    return [_part(part, f"{place}[{number}]") for number, part in enumerate(content)]


def _part(part: Any, place: str) -> dict[str, Any]:
    if not isinstance(part, dict):
        raise InvalidRequest(f"'{place}' must be an object.", place)
    if part.get("type") in ("input_text", "output_text"):
        return {"type": "text", "text": _text(part, "text", place)}
    if part.get("type") == "refusal":
        return {"type": "text", "text": _text(part, "refusal", place)}
    raise UnsupportedParameter(f"{place}.type")


def _text(fields: dict[str, Any], name: str, place: str) -> str:
    value = fields.get(name)
    if value is None:
        raise MissingParameter(f"{place}.{name}")
    if not isinstance(value, str):
        raise InvalidRequest(f"'{place}.{name}' must be a string.", f"{place}.{name}")
    return value
