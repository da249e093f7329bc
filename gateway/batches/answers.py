"""Lines of the output and the error file, as OpenAI writes them."""

from __future__ import annotations

from typing import Any

import orjson

from gateway.batches.naming import answer_id
from gateway.batches.types import Result
from gateway.errors import GatewayError
from gateway.wire import Usage
from gateway.wire.usage import read_usage

__all__ = ["answered", "expired", "refused"]

EXPIRED = {
    "code": "batch_expired",
    "message": "This request could not be executed before the completion window expired.",
}


def answered(batch_id: str, number: int, custom_id: str, request_id: str, body: bytes) -> Result:
    """`body` is the whole answer of the endpoint."""
    fields = orjson.loads(body)
    return Result(
        number,
        is_error=False,
        content=_line(batch_id, number, custom_id, _response(200, request_id, fields), None),
        usage=_usage(fields),
    )


def refused(batch_id: str, number: int, custom_id: str, request_id: str, error: GatewayError) -> Result:
    response = _response(error.status, request_id, error.payload())
    return Result(number, is_error=True, content=_line(batch_id, number, custom_id, response, None))


def expired(batch_id: str, number: int, custom_id: str) -> Result:
    return Result(number, is_error=True, content=_line(batch_id, number, custom_id, None, EXPIRED))


def _line(
    batch_id: str, number: int, custom_id: str, response: dict[str, Any] | None, error: dict[str, str] | None
) -> str:
    return orjson.dumps(
        {
            "id": answer_id(batch_id, number),
            "custom_id": custom_id,
            "response": response,
            "error": error,
        }
    ).decode()


def _response(status: int, request_id: str, body: Any) -> dict[str, Any]:
    return {"status_code": status, "request_id": request_id, "body": body}


def _usage(fields: Any) -> Usage | None:
    usage = fields.get("usage") if isinstance(fields, dict) else None
    if isinstance(usage, dict) and "input_tokens" in usage:  # as responses have it
        usage = {
            "prompt_tokens": usage["input_tokens"],
            "completion_tokens": usage.get("output_tokens", 0),
            "prompt_tokens_details": usage.get("input_tokens_details"),
            "completion_tokens_details": usage.get("output_tokens_details"),
        }
    return read_usage(usage)
