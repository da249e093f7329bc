"""Every row of the error table, and the rules that hold for all of them."""

import pytest

from gateway import errors
from gateway.errors import ClientError, GatewayError, RateLimited, ServerError

ROWS = [
    (errors.MissingCredentials(), 401, "invalid_request_error", None, None),
    (errors.InvalidApiKey("tw-abcdefgh-***wxyz"), 401, "invalid_request_error", "invalid_api_key", None),
    (errors.IpNotAuthorized(), 401, "invalid_request_error", "ip_not_authorized", None),
    (
        errors.InsufficientPermissions("usage.read"),
        403,
        "invalid_request_error",
        "insufficient_permissions",
        None,
    ),
    (errors.ModelNotFound("m"), 404, "invalid_request_error", "model_not_found", "model"),
    (errors.NotFound("Unknown request URL"), 404, "invalid_request_error", None, None),
    (errors.UnknownUrl("GET", "/x"), 404, "invalid_request_error", None, None),
    (errors.MethodNotAllowed("PUT", "/v1/models", "GET"), 405, "invalid_request_error", None, None),
    (errors.Conflict("archived"), 409, "invalid_request_error", None, None),
    (errors.InvalidRequest("bad JSON"), 400, "invalid_request_error", None, None),
    (
        errors.InvalidValue("must be ≥ 0", "messages[0].role"),
        400,
        "invalid_request_error",
        "invalid_value",
        "messages[0].role",
    ),
    (
        errors.UnsupportedParameter("logit_bias"),
        400,
        "invalid_request_error",
        "unsupported_parameter",
        "logit_bias",
    ),
    (
        errors.MissingParameter("model"),
        400,
        "invalid_request_error",
        "missing_required_parameter",
        "model",
    ),
    (
        errors.ContextLengthExceeded("too long"),
        400,
        "invalid_request_error",
        "context_length_exceeded",
        "messages",
    ),
    (errors.BodyTooLarge(1024), 413, "invalid_request_error", None, None),
    (errors.ReaderTooSlow(), 400, "invalid_request_error", "reader_too_slow", None),
    (errors.RateLimited("requests", "m", 1.0), 429, "requests", "rate_limit_exceeded", None),
    (errors.RateLimited("tokens", "m", 1.0), 429, "tokens", "rate_limit_exceeded", None),
    (errors.InsufficientQuota("m"), 429, "insufficient_quota", "insufficient_quota", None),
    (
        errors.InsufficientQuota("m", "project_spend_limit_exceeded"),
        429,
        "insufficient_quota",
        "project_spend_limit_exceeded",
        None,
    ),
    (errors.Overloaded(), 503, "service_unavailable_error", "server_is_overloaded", None),
    (errors.ServiceUnavailable("away"), 503, "service_unavailable_error", "server_is_overloaded", None),
    (errors.UpstreamTimeout(), 504, "server_error", "timeout", None),
    (errors.EngineFailed(), 500, "server_error", None, None),
    (errors.NoReplicaReady(), 503, "service_unavailable_error", "server_is_overloaded", None),
    (errors.InternalError("req_1"), 500, "server_error", None, None),
]


@pytest.mark.parametrize(("error", "status", "type_", "code", "param"), ROWS)
def test_row(error: GatewayError, status: int, type_: str, code: str | None, param: str | None) -> None:
    assert error.status == status
    body = error.payload()["error"]
    assert set(body) == {"message", "type", "param", "code"}
    assert (body["type"], body["code"], body["param"]) == (type_, code, param)
    assert body["message"]


@pytest.mark.parametrize("error", [row[0] for row in ROWS])
def test_only_declared_client_errors_are_4xx(error: GatewayError) -> None:
    assert isinstance(error, ClientError) == (error.status < 500)
    assert isinstance(error, ServerError) == (error.status >= 500)


def test_every_error_has_a_row() -> None:
    covered = {type(row[0]).__name__ for row in ROWS}
    bases = {"GatewayError", "ClientError", "ServerError", "LimitKind", "QuotaCode", "brief"}
    assert covered == set(errors.__all__) - bases


def test_refusal_says_when_to_come_back_in_both_units_and_never_zero() -> None:
    headers = RateLimited("requests", "m", 0.0123).response_headers()
    assert headers == {"retry-after": "1", "retry-after-ms": "13"}


def test_larger_than_the_whole_limit_is_not_worth_a_retry() -> None:
    error = RateLimited("tokens", "m", None)
    assert error.response_headers() == {"x-should-retry": "false"}
    assert not error.retryable


def test_used_up_budget_has_no_retry_after() -> None:
    assert errors.InsufficientQuota("m").response_headers() == {"x-should-retry": "false"}


def test_our_bug_shows_the_request_id_and_nothing_else() -> None:
    message = errors.InternalError("req_abc").message
    assert "req_abc" in message
    assert "Error" not in message


def test_ratelimit_headers_travel_with_the_refusal() -> None:
    error = RateLimited("requests", "m", 2.0, {"x-ratelimit-limit-requests": "60"})
    assert error.response_headers()["x-ratelimit-limit-requests"] == "60"
