"""The error document has all four keys, always."""

from __future__ import annotations

import orjson
import pytest

from engine.server import errors


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (errors.invalid("bad", "n"), 400, "invalid_value"),
        (errors.missing("model"), 400, "missing_required_parameter"),
        (errors.unsupported("echo", "no."), 400, "unsupported_parameter"),
        (errors.too_long(5, 6, 10), 400, "context_length_exceeded"),
        (errors.model_not_found("m"), 404, "model_not_found"),
        (errors.not_found("no"), 404, None),
        (errors.unauthorized("no", None), 401, None),
        (errors.overloaded(None, 2.4), 503, "server_is_overloaded"),
        (errors.draining(), 503, "draining"),
        (errors.engine_unavailable(), 503, "engine_unavailable"),
        (errors.engine_failed(None), 500, "engine_error"),
        (errors.internal_error(), 500, None),
    ],
)
def test_every_error_has_the_four_keys(error: errors.ApiError, status: int, code: str | None) -> None:
    assert error.status == status
    document = orjson.loads(error.body())["error"]
    assert sorted(document) == ["code", "message", "param", "type"]
    assert document["code"] == code
    assert document["message"]


def test_usage_stands_beside_the_error() -> None:
    document = orjson.loads(errors.engine_failed("x").body({"prompt_tokens": 1}))
    assert sorted(document) == ["error", "usage"]


def test_retry_after_is_never_zero_and_the_nearest_second() -> None:
    assert errors.overloaded(None, 0.01).headers == {"retry-after": "1"}
    assert errors.overloaded(None, 12.2).headers == {"retry-after": "12"}
    assert errors.overloaded(None, 12.7).headers == {"retry-after": "13"}


def test_errors_of_the_core() -> None:
    assert errors.from_core("server_is_overloaded", "full", 3.0).status == 503
    assert errors.from_core("context_length_exceeded", None, None).status == 400
    assert errors.from_core("anything", "boom", None).status == 500
    refused = errors.from_core("invalid_grammar", "no", None, "response_format")
    assert (refused.status, refused.code, refused.param) == (400, "invalid_value", "response_format")
