"""What a change of a budget means, in words."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gateway.ledger.budget_state import BudgetState, consequence

ENDS = datetime(2026, 12, 1, tzinfo=UTC)
STATE = BudgetState(100, True, "2026-11", datetime(2026, 11, 1, tzinfo=UTC), ENDS, 10, 50)


def test_what_remains_may_be_negative() -> None:
    assert STATE.remaining_nanousd == 40
    assert replace(STATE, limit_nanousd=20).remaining_nanousd == -40


@pytest.mark.parametrize(
    ("limit", "is_hard", "words"),
    [
        (100, True, None),
        (200, True, None),
        (200, False, None),
        (90, False, "no request is refused"),
        (90, True, "$0.00000003 are left"),
        (60, True, "in flight hold $0.00000001"),
        (50, True, "every request is refused until 2026-12-01T00:00:00+00:00 or until the limit is raised"),
    ],
)
def test_a_lowered_limit_names_its_consequence(limit: int, is_hard: bool, words: str | None) -> None:
    told = consequence(STATE, replace(STATE, limit_nanousd=limit, is_hard=is_hard))
    assert told is None if words is None else words in (told or "")


def test_a_new_and_a_hardened_budget_name_it_too() -> None:
    assert "are left" in (consequence(None, STATE) or "")
    assert "are left" in (consequence(replace(STATE, is_hard=False), STATE) or "")
    used_up = replace(STATE, limit_nanousd=50, ends_at=None)
    assert (consequence(None, used_up) or "").endswith("refused until the limit is raised.")
