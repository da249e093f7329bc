"""Refusals have the shape of every other error, and two kinds of 401 can be told apart."""

from __future__ import annotations

from gateway.sessions.errors import Forged, LoginRefused, SessionOver, TooManyAttempts


def test_statuses_and_codes() -> None:
    errors = (LoginRefused(), SessionOver(), SessionOver(is_final=True), Forged(), TooManyAttempts(2.2))
    assert [(error.status, error.code) for error in errors] == [
        (401, "invalid_login"),
        (401, "session_expired"),
        (401, "session_ended"),
        (403, "cross_site_request"),
        (429, "rate_limit_exceeded"),
    ]
    assert TooManyAttempts(2.2).response_headers()["retry-after"] == "3"
