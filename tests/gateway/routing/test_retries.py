"""The retry budget: a share of the traffic with a floor, over a sliding window."""

from __future__ import annotations

from gateway.routing.retries import FLOOR, WINDOW_S, RetryBudget


def taken(budget: RetryBudget, now: float, asked: int) -> int:
    return sum(budget.take(now) for _ in range(asked))


def test_the_floor_holds_without_traffic() -> None:
    assert taken(RetryBudget(), 0.0, 100) == FLOOR


def test_a_tenth_of_the_traffic() -> None:
    budget = RetryBudget()
    for number in range(1000):
        budget.note_request(number / 200)
    assert taken(budget, 5.0, 1000) == 100


def test_the_window_slides() -> None:
    budget = RetryBudget()
    assert taken(budget, 0.0, 100) == FLOOR
    assert taken(budget, WINDOW_S - 1, 100) == 0
    assert taken(budget, WINDOW_S + 1, 100) == FLOOR
