"""The error tree: what a caller may learn about a failure.

Each error carries its own status, OpenAI type and code, parameter, retryability and headers; one place in
`gateway/http/errors.py` turns it into an answer. The message is always safe to show: nothing here holds a
secret, a prompt or an internal name. An exception outside this tree is our bug and is answered as 500. This
module does not know HTTP libraries.
"""

import math
from collections.abc import Mapping
from typing import Literal

__all__ = [
    "BodyTooLarge",
    "ClientError",
    "Conflict",
    "ContextLengthExceeded",
    "EngineFailed",
    "GatewayError",
    "InsufficientPermissions",
    "InsufficientQuota",
    "InternalError",
    "InvalidApiKey",
    "InvalidRequest",
    "InvalidValue",
    "IpNotAuthorized",
    "LimitKind",
    "MethodNotAllowed",
    "MissingCredentials",
    "MissingParameter",
    "ModelNotFound",
    "NoReplicaReady",
    "NotFound",
    "Overloaded",
    "QuotaCode",
    "RateLimited",
    "ReaderTooSlow",
    "ServerError",
    "ServiceUnavailable",
    "UnknownUrl",
    "UnsupportedParameter",
    "UpstreamTimeout",
    "brief",
]

ECHO_CHARS_MAX = 256

LimitKind = Literal["requests", "tokens"]
QuotaCode = Literal["insufficient_quota", "project_spend_limit_exceeded", "organization_spend_limit_exceeded"]


def brief(text: str) -> str:
    """What a caller sent, fit for a message or a log: short, and without characters that nobody sees."""
    shown = "".join(one for one in text[:ECHO_CHARS_MAX] if one.isprintable())
    return shown if len(text) <= ECHO_CHARS_MAX else f"{shown}…"


class GatewayError(Exception):
    """A failure with an agreed answer. Raise a subclass; this class is for relaying an engine's own error."""

    def __init__(
        self,
        status: int,
        type: str,
        code: str | None,
        message: str,
        param: str | None = None,
        retryable: bool = False,
        retry_after_s: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        assert 400 <= status <= 599, "an error has an error status"
        assert retry_after_s is None or retry_after_s > 0, "clients ignore a retry-after of 0"
        self.status = status
        self.type = type
        self.code = code
        self.message = message
        self.param = param
        self.retryable = retryable
        """The same request may succeed later or on another replica, without a change by the caller."""
        self.retry_after_s = retry_after_s
        self.headers: Mapping[str, str] = dict(headers or {})

    is_settled = False
    """The request was admitted, so there is an event under its id, and that id is used up."""

    def payload(self) -> dict[str, dict[str, str | None]]:
        """The JSON body, always with all four keys."""
        return {
            "error": {
                "message": self.message,
                "type": self.type,
                "param": self.param,
                "code": self.code,
            }
        }

    def response_headers(self) -> dict[str, str]:
        """The extra headers of the answer, retry hints included."""
        headers = dict(self.headers)
        if self.retry_after_s is not None:
            headers["retry-after"] = str(max(1, math.ceil(self.retry_after_s)))
            headers["retry-after-ms"] = str(max(1, math.ceil(self.retry_after_s * 1000)))
        return headers


class ClientError(GatewayError):
    """The caller's doing. Only subclasses of this one are answered with 4xx."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        type: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
        retryable: bool = False,
        retry_after_s: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        assert 400 <= status <= 499, "a client error is a 4xx"
        super().__init__(status, type, code, message, param, retryable, retry_after_s, headers)


class ServerError(GatewayError):
    """Ours, or an engine's. Never the caller's."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 500,
        type: str = "server_error",
        code: str | None = None,
        retryable: bool = True,
        retry_after_s: float | None = None,
    ) -> None:
        assert status >= 500, "a server error is a 5xx"
        super().__init__(status, type, code, message, None, retryable, retry_after_s)


# Who is calling


class MissingCredentials(ClientError):
    """No Authorization header, or not `Bearer <key>`."""

    def __init__(self) -> None:
        super().__init__(
            "You didn't provide an API key. Send it in the Authorization header as 'Bearer YOUR_KEY'.",
            status=401,
            headers={"www-authenticate": "Bearer"},
        )


class InvalidApiKey(ClientError):
    """Unknown, revoked or expired: one answer for all three, so that none can be told from another."""

    def __init__(self, masked_key: str) -> None:
        super().__init__(
            f"Incorrect API key provided: {masked_key}.",
            status=401,
            code="invalid_api_key",
            headers={"www-authenticate": "Bearer"},
        )


class IpNotAuthorized(ClientError):
    def __init__(self) -> None:
        super().__init__(
            "Your IP address is not authorized to use this API key.", status=401, code="ip_not_authorized"
        )


class InsufficientPermissions(ClientError):
    """A known caller without the scope (or role) that the call needs."""

    def __init__(self, missing: str, kind: Literal["scopes", "role"] = "scopes") -> None:
        super().__init__(
            f"You have insufficient permissions for this operation. Missing {kind}: {missing}.",
            status=403,
            code="insufficient_permissions",
        )


# What is asked for


class ModelNotFound(ClientError):
    """Unknown and not permitted look the same to the caller."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"The model `{brief(model)}` does not exist or you do not have access to it.",
            status=404,
            code="model_not_found",
            param="model",
        )


class NotFound(ClientError):
    """An unknown URL, or a resource that does not exist for this caller."""

    def __init__(self, message: str) -> None:
        super().__init__(message, status=404)


class UnknownUrl(NotFound):
    def __init__(self, method: str, path: str) -> None:
        super().__init__(f"Invalid URL ({method} {brief(path)})")


class MethodNotAllowed(ClientError):
    def __init__(self, method: str, path: str, allowed: str) -> None:
        super().__init__(
            f"Not allowed to {method} on {brief(path)}. Allowed: {allowed}.",
            status=405,
            headers={"allow": allowed},
        )


class Conflict(ClientError):
    """The state of the resource forbids the operation; retrying alone does not help."""

    def __init__(self, message: str) -> None:
        super().__init__(message, status=409, headers={"x-should-retry": "false"})


class InvalidRequest(ClientError):
    """A body that cannot be read, or a wrong type."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message, param=param)


class InvalidValue(ClientError):
    def __init__(self, message: str, param: str) -> None:
        super().__init__(message, code="invalid_value", param=param)


class UnsupportedParameter(ClientError):
    def __init__(self, param: str) -> None:
        super().__init__(
            f"Unsupported parameter: '{param}' is not supported with this model.",
            code="unsupported_parameter",
            param=param,
        )


class MissingParameter(ClientError):
    def __init__(self, param: str) -> None:
        super().__init__(
            f"Missing required parameter: '{param}'.", code="missing_required_parameter", param=param
        )


class ContextLengthExceeded(ClientError):
    def __init__(self, message: str, param: str | None = "messages") -> None:
        super().__init__(message, code="context_length_exceeded", param=param)


class BodyTooLarge(ClientError):
    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"The request body is larger than the limit of {limit_bytes} bytes.", status=413)


# How much is asked for


class RateLimited(ClientError):
    """A limit of requests, tokens or concurrency refused the call.

    `retry_after_s` is None when waiting cannot help, because the request is larger than the whole limit.
    """

    def __init__(
        self,
        kind: LimitKind,
        message: str,
        retry_after_s: float | None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        hopeless = {"x-should-retry": "false"} if retry_after_s is None else {}
        super().__init__(
            message,
            status=429,
            type=kind,
            code="rate_limit_exceeded",
            retryable=retry_after_s is not None,
            retry_after_s=retry_after_s,
            headers={**(headers or {}), **hopeless},
        )


class InsufficientQuota(ClientError):
    """A budget or prepaid balance is used up; only the operator or a new period helps, so no retry-after."""

    def __init__(self, message: str, code: QuotaCode = "insufficient_quota") -> None:
        super().__init__(
            message,
            status=429,
            type="insufficient_quota",
            code=code,
            headers={"x-should-retry": "false"},
        )


class ReaderTooSlow(ClientError):
    """Ends a stream whose caller fell too far behind: its engine keeps only so much of it."""

    def __init__(self) -> None:
        super().__init__(
            "The answer was read more slowly than it was written, and too much of it was waiting.",
            code="reader_too_slow",
        )


# What we could not do


class ServiceUnavailable(ServerError):
    """Something that we need is away or full: pool, ledger, key database. Nothing was charged."""

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(
            message,
            status=503,
            type="service_unavailable_error",
            code="server_is_overloaded",
            retry_after_s=retry_after_s,
        )


class Overloaded(ServiceUnavailable):
    """The replicas that could be asked are saturated or draining."""

    def __init__(
        self,
        retry_after_s: float = 1.0,
        message: str = "The model is overloaded right now. Please retry in a moment.",
    ) -> None:
        super().__init__(message, retry_after_s)


class NoReplicaReady(Overloaded):
    """There is nobody to ask: all replicas of the pool are starting, draining, broken or gone."""

    def __init__(self) -> None:
        super().__init__(message="No replica of this model is ready. Please retry in a moment.")


class UpstreamTimeout(ServerError):
    """The first-token, between-tokens or total timeout of the pool passed."""

    def __init__(self, message: str = "The model did not answer in time.") -> None:
        super().__init__(message, status=504, code="timeout")


class EngineFailed(ServerError):
    """The engine broke while it was answering; the message tells nothing of its insides."""

    def __init__(self, message: str = "The model failed while answering. Please retry.") -> None:
        super().__init__(message)


class InternalError(ServerError):
    """Our bug. The request id is all that the caller gets."""

    def __init__(self, request_id: str) -> None:
        super().__init__(f"The server had an error while processing your request ({request_id}).")
