"""Records in words: exact amounts, and what it means."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.alerts.letters import letter_of
from gateway.alerts.types import Record

FACTS: dict[str, Any] = {
    "scope": "tenant",
    "project_id": "proj_a",
    "key_id": None,
    "period": {"kind": "monthly", "id": "2026-11", "starts_at": 1793491200, "ends_at": 1796083200},
    "threshold_nanousd": 80_000_000_001,
    "threshold_percent": 80,
    "spent_nanousd": 80_500_000_000,
    "limit_nanousd": 100_000_000_000,
    "is_hard": True,
}


def letter(kind: str = "budget.threshold_reached", **changes: Any) -> tuple[str, str]:
    record = Record("alert_1", kind, None, FACTS | changes, datetime(2026, 11, 29, 20, 15, tzinfo=UTC))
    told = letter_of(record)
    return told.subject, told.text


def test_a_threshold() -> None:
    subject, text = letter()
    assert subject == "Spend of project proj_a reached $80.000000001 (80 % of its limit)"
    assert text.startswith(
        "Project proj_a spent $80.50 in the monthly period 2026-11, which began 2026-11-01 00:00 UTC.\n"
    )
    assert "Limit: $100.00\n" in text
    assert "Seen: 2026-11-29 20:15:00 UTC\n" in text


def test_a_month_without_a_limit() -> None:
    subject, text = letter(scope="organization", limit_nanousd=None, threshold_percent=None)
    assert subject == "Spend of the organization reached $80.000000001"
    assert "Limit: none\n" in text


@pytest.mark.parametrize(
    ("is_hard", "words"), [(True, "Requests are refused"), (False, "no request is refused")]
)
def test_a_budget_that_is_used_up(is_hard: bool, words: str) -> None:
    prepaid = {"kind": "prepaid", "id": "prepaid", "starts_at": None, "ends_at": None}
    subject, text = letter("budget.exhausted", scope="key", key_id="key_1", period=prepaid, is_hard=is_hard)
    assert subject == "Budget used up: API key key_1 of project proj_a"
    assert "spent $80.50 of what was paid in" in text
    assert words in text


def test_other_records_are_told_as_they_are() -> None:
    record = Record("alert_1", "replica.down", None, {"replica": "r1"}, datetime(2026, 1, 1, tzinfo=UTC))
    told = letter_of(record)
    assert (told.subject, told.text) == ("replica.down", "replica: r1\n")
