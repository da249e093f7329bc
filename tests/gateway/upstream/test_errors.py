"""Whose fault an engine's refusal is, and what of it the caller may read."""

from __future__ import annotations

import pytest

from gateway.upstream.errors import judge
from gateway.wire.answer import EngineError


def said(message: str | None = "m", code: str | None = None, param: str | None = None) -> EngineError:
    return EngineError(message, None, param, code)


@pytest.mark.parametrize(
    ("status", "code", "verdict", "answered"),
    [
        (400, None, "client", 400),
        (422, None, "client", 400),
        (413, None, "client", 413),
        (429, None, "busy", 503),
        (503, "server_is_overloaded", "busy", 503),
        (503, "draining", "closed", 503),
        (503, "engine_unavailable", "closed", 503),
        (503, None, "failed", 500),
        (500, None, "failed", 500),
        (401, None, "failed", 500),
        (404, "model_not_found", "failed", 500),
        (302, None, "failed", 500),
    ],
)
def test_verdicts(status: int, code: str | None, verdict: str, answered: int) -> None:
    refusal = judge(status, {}, said(code=code), "up", "served")
    assert (refusal.verdict, refusal.error.status) == (verdict, answered)


def test_a_client_error_keeps_what_is_the_callers() -> None:
    error = judge(400, {}, said("up cannot do that", "invalid_value", "messages[0].role"), "up", "mine").error
    assert (error.message, error.code, error.param) == (
        "mine cannot do that",
        "invalid_value",
        "messages[0].role",
    )


@pytest.mark.parametrize(
    ("message", "code", "expected"),
    [
        ("This model's maximum context length is 8 tokens.", None, "context_length_exceeded"),
        ("no", "internal_detail", None),
        (None, None, None),
    ],
)
def test_codes(message: str | None, code: str | None, expected: str | None) -> None:
    error = judge(400, {}, said(message, code), "up", "mine").error
    assert error.code == expected
    assert error.message


@pytest.mark.parametrize(("header", "seconds"), [("3", 3.0), ("0", 1.0), ("soon", 1.0), ("9999", 120.0)])
def test_retry_after(header: str, seconds: float) -> None:
    refusal = judge(503, {"retry-after": header}, said(code="server_is_overloaded"), "up", "mine")
    assert refusal.error.retry_after_s == seconds
