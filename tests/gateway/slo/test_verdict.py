"""What counts for availability, against it, and for neither."""

from __future__ import annotations

import pytest

from gateway.slo.verdict import OUR_REFUSALS, is_good


@pytest.mark.parametrize(
    ("status", "code", "good"),
    [
        ("ok", None, True),
        ("error", "server_error", False),
        ("error", "timeout", False),
        ("partial", "server_error", False),
        ("unknown", None, False),
        ("cancelled", None, None),
        ("error", "context_length_exceeded", None),
        ("ok", "gateway_lost", False),
        ("cancelled", "gateway_lost", False),
    ],
)
def test_how_a_request_counts(status: str, code: str | None, good: bool | None) -> None:
    assert is_good(status, code) is good


def test_quotas_are_no_failures() -> None:
    quota = {
        "rate_limit_exceeded",
        "requests",
        "tokens",
        "insufficient_quota",
        "project_spend_limit_exceeded",
    }
    assert not quota & OUR_REFUSALS
    assert "server_is_overloaded" in OUR_REFUSALS
