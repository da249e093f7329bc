"""What a caller is told when something goes wrong, in OpenAI's shape: all four keys on every path.

`ApiError` is raised anywhere in the API process and rendered at the edge (`app`) or, after the first byte of
a stream, as an SSE event. Knows no sockets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

INVALID_REQUEST = "invalid_request_error"
SERVER_ERROR = "server_error"
UNAVAILABLE = "service_unavailable_error"


class ApiError(Exception):
    """One answer other than success. `message` is safe to show."""

    def __init__(
        self,
        status: int,
        type_: str,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.type = type_
        self.message = message
        self.code = code
        self.param = param
        self.headers = dict(headers or {})

    def body(self, usage: Mapping[str, Any] | None = None) -> bytes:
        """The JSON document; `usage` stands beside the error when tokens were produced."""
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        document: dict[str, Any] = {"error": error}
        if usage is not None:
            document["usage"] = usage
        return orjson.dumps(document)


def invalid(message: str, param: str | None, code: str | None = "invalid_value") -> ApiError:
    return ApiError(400, INVALID_REQUEST, message, code=code, param=param)


def missing(param: str) -> ApiError:
    return invalid(f"Missing required parameter: '{param}'.", param, "missing_required_parameter")


def unsupported(param: str, why: str) -> ApiError:
    return invalid(f"Unsupported parameter: '{param}': {why}", param, "unsupported_parameter")


def too_long(
    num_prompt_tokens: int, num_output_tokens: int, limit: int, param: str | None = None
) -> ApiError:
    wanted = f"{num_prompt_tokens} in the prompt"
    if num_output_tokens:
        wanted += f" and {num_output_tokens} for the answer"
    return invalid(
        f"This model's context holds {limit} tokens, but this request needs {wanted}.",
        param,
        "context_length_exceeded",
    )


def text_too_long(num_chars: int, limit: int, param: str) -> ApiError:
    """For texts whose tokens need not be counted to know that they do not fit."""
    message = (
        f"At most {limit} tokens fit here, and {num_chars} characters are more than that many can spell."
    )
    return invalid(message, param, "context_length_exceeded")


def not_found(message: str) -> ApiError:
    return ApiError(404, INVALID_REQUEST, message)


def model_not_found(model: str) -> ApiError:
    message = f"The model '{model[:200]}' does not exist or you do not have access to it."
    return ApiError(404, INVALID_REQUEST, message, code="model_not_found", param="model")


def model_mismatch() -> ApiError:
    message = "This answer was begun by other weights or with another tokenizer; it cannot go on here."
    return ApiError(409, INVALID_REQUEST, message, code="model_mismatch", param="start.model_hash")


def unauthorized(message: str, code: str | None) -> ApiError:
    return ApiError(401, INVALID_REQUEST, message, code=code, headers={"www-authenticate": "Bearer"})


def overloaded(message: str | None, retry_after_s: float | None) -> ApiError:
    return _unavailable(
        "server_is_overloaded", message or "The server is overloaded; retry later.", retry_after_s
    )


def draining() -> ApiError:
    return _unavailable("draining", "This server is shutting down.", 1.0)


def engine_unavailable() -> ApiError:
    return _unavailable("engine_unavailable", "The model is not ready to answer yet; retry shortly.", 1.0)


def journal_unavailable() -> ApiError:
    return _unavailable(
        "journal_unavailable", "Usage cannot be recorded here at the moment; retry shortly.", 1.0
    )


def reader_too_slow() -> ApiError:
    """Ends a stream; an answer that has not begun does not meet it."""
    message = (
        "This answer was read more slowly than it was written, and too much of it was waiting; it ends here."
    )
    return ApiError(400, INVALID_REQUEST, message, code="reader_too_slow")


def engine_failed(message: str | None) -> ApiError:
    return ApiError(500, SERVER_ERROR, message or "The engine failed.", code="engine_error")


def internal_error() -> ApiError:
    return ApiError(500, SERVER_ERROR, "The server had an error while processing this request.")


def from_core(
    code: str | None, message: str | None, retry_after_s: float | None, param: str | None = None
) -> ApiError:
    """The core's terminal error of one request."""
    if code == "server_is_overloaded":
        return overloaded(message, retry_after_s)
    if code == "context_length_exceeded":
        return invalid(message or "The request does not fit into the model's context.", None, code)
    if code == "invalid_grammar":
        return invalid(message or "No answer can follow this grammar.", param)
    return engine_failed(message)


def _unavailable(code: str, message: str, retry_after_s: float | None) -> ApiError:
    headers = {"retry-after": str(max(1, round(retry_after_s or 1.0)))}
    return ApiError(503, UNAVAILABLE, message, code=code, headers=headers)
