"""A chat's whole answer → a response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from gateway.errors import GatewayError
from gateway.wire.usage import read_usage

__all__ = [
    "Ids",
    "call_item",
    "call_status",
    "ended",
    "failed",
    "message_item",
    "reasoning_item",
    "response",
    "response_of_chat",
]

Json = dict[str, Any]
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


class Ids:
    """All follow from the request's, so that a response is found by any of them."""

    def __init__(self, request_id: str) -> None:
        self._stem = request_id.removeprefix("req_")
        self.response = f"resp_{self._stem}"
        self.message = f"msg_{self._stem}"
        self.reasoning = f"rs_{self._stem}"

    def again(self, first: str, number: int) -> str:
        """Of the item of one kind that has so many before it: their ids differ within an answer."""
        return f"{first}{number:02x}" if number else first

    def call(self, number: int) -> str:
        return f"fc_{self._stem}{number:02x}"


def response_of_chat(body: bytes, repeated: Mapping[str, Any], request_id: str) -> bytes:
    fields, ids = orjson.loads(body), Ids(request_id)
    choices = fields.get("choices") or [{}]
    message = choices[0].get("message") or {}
    output: list[Json] = []
    reasoned = message.get("reasoning_content") or message.get("reasoning")
    if reasoned:
        output.append(reasoning_item(ids.reasoning, reasoned))
    finish = ended(choices[0].get("finish_reason"))
    calls: list[Json] = []
    for number, call in enumerate(message.get("tool_calls") or ()):
        function = call.get("function") or {}
        name, arguments = function.get("name", ""), function.get("arguments", "")
        status = call_status(arguments, finish["status"])
        calls.append(call_item(ids.call(number), call.get("id", ""), name, arguments, status))
    if message.get("content") or not calls:
        is_whole = any(
            call["status"] == "incomplete" for call in calls
        )  # then it was a call that was cut off
        status = "completed" if is_whole else finish["status"]
        output.append(message_item(ids.message, message.get("content") or "", message.get("refusal"), status))
    output += calls
    created = fields.get("created", 0)
    return orjson.dumps(response(repeated, ids, created, output, fields.get("usage"), **finish))


def response(
    repeated: Mapping[str, Any],
    ids: Ids,
    created: int,
    output: Sequence[Json],
    usage: Any,
    *,
    status: str,
    incomplete_details: Json | None = None,
    error: Json | None = None,
) -> Json:
    return {
        "id": ids.response,
        "object": "response",
        "created_at": created,
        "status": status,
        "error": error,
        "incomplete_details": incomplete_details,
        "output": list(output),
        "usage": _usage(usage),
        **repeated,
    }


def ended(finish_reason: Any) -> Json:
    """`status` and `incomplete_details`."""
    reason = _INCOMPLETE.get(finish_reason) if isinstance(finish_reason, str) else None
    if reason is None:
        return {"status": "completed"}
    return {"status": "incomplete", "incomplete_details": {"reason": reason}}


def failed(error: GatewayError) -> Json:
    return {"status": "failed", "error": {"code": "server_error", "message": error.message}}


def message_item(id: str, text: str, refusal: str | None = None, status: str = "completed") -> Json:
    part: Json = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    if refusal:
        part = {"type": "refusal", "refusal": refusal}
    return {"id": id, "type": "message", "status": status, "role": "assistant", "content": [part]}


def reasoning_item(id: str, text: str) -> Json:
    content = [{"type": "reasoning_text", "text": text}]
    return {"id": id, "type": "reasoning", "summary": [], "content": content}


def call_item(id: str, call_id: str, name: str, arguments: str, status: str = "completed") -> Json:
    return {
        "id": id,
        "type": "function_call",
        "status": status,
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
    }


def call_status(arguments: str, status: str) -> str:
    """Of a call in an answer that ended with `status`: only one whose arguments break off is incomplete."""
    if status == "completed":
        return status
    try:
        orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return status
    return "completed"


def _usage(usage: Any) -> Json | None:
    found = read_usage(usage)
    if found is None:
        return None
    return {
        "input_tokens": found.prompt_tokens,
        "input_tokens_details": {"cached_tokens": found.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": found.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": found.reasoning_tokens},
        "total_tokens": found.prompt_tokens + found.completion_tokens,
    }
