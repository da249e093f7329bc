"""The one place where an error becomes an answer: four keys in the body, retry hints in the headers."""

from __future__ import annotations

import orjson

from gateway.errors import GatewayError

__all__ = ["Rendered", "error_event", "render_error"]

Rendered = tuple[int, dict[str, str], bytes]


def render_error(error: GatewayError) -> Rendered:
    headers = {"content-type": "application/json", **error.response_headers()}
    return error.status, headers, orjson.dumps(error.payload())


def error_event(error: GatewayError) -> bytes:
    """For a stream that has begun: the last event, with no `[DONE]` after it."""
    return b"data: " + orjson.dumps(error.payload()) + b"\n\n"
