"""When a hard budget counts as used up: refused for what is spent, near its end, told once."""

from __future__ import annotations

import pytest

from gateway.ledger.decide import BudgetRow
from gateway.ledger.types import BudgetKey
from gateway.ledger.used_up import REMEMBERED_MAX, Refused, UsedUp

KEY = BudgetKey("b", "2026-11")


def row(spent: int, held: int = 0, limit: int = 1000, key: BudgetKey = KEY) -> BudgetRow:
    return BudgetRow(key, "tenant", limit, True, held, spent)


@pytest.mark.parametrize(
    ("spent", "held", "amount", "is_used_up"),
    [
        (899, 0, 200, False),  # a large request, while more than a tenth is left
        (900, 0, 101, True),
        (900, 90, 100, False),  # what is held may come back
        (950, 40, 51, True),
        (1000, 0, 1, True),
    ],
)
def test_what_counts(spent: int, held: int, amount: int, is_used_up: bool) -> None:
    used_up = UsedUp()
    used_up.note(row(spent, held), amount)
    assert bool(used_up.news) is is_used_up


def test_each_limit_of_a_period_is_told_once() -> None:
    used_up = UsedUp()
    for limit in (1000, 1000, 1001):
        used_up.note(row(1000, limit=limit), 5)
    assert used_up.news == [Refused("b", "2026-11", 1000), Refused("b", "2026-11", 1001)]
    used_up.told(used_up.news[:1])
    used_up.note(row(1000), 5)
    assert used_up.news == [Refused("b", "2026-11", 1001)]


def test_what_is_remembered_is_bounded() -> None:
    used_up = UsedUp()
    for number in range(REMEMBERED_MAX + 5):
        used_up.note(row(1000, key=BudgetKey(f"b{number}", "p")), 5)
    assert len(used_up.news) == REMEMBERED_MAX
    used_up.told(used_up.news)
    used_up.note(row(1000), 5)
    used_up.told(used_up.news)
    used_up.note(row(1000, key=BudgetKey("b0", "p")), 5)
    assert used_up.news == [Refused("b0", "p", 1000)], "forgotten, and told again"
