"""Virtual token counters: whose turn it is, what it costs, who is remembered."""

from __future__ import annotations

import itertools

import pytest

from engine.core import fairness
from engine.core.fairness import INPUT_WEIGHT, OLDEST_EVERY, OUTPUT_WEIGHT, FairQueue
from engine.core.request import Request
from engine.core.shares import Holding
from tests.engine.core.harness import add

numbers = itertools.count()


def request(fairness_id: str, weight: float = 1.0, **fields: object) -> Request:
    number = next(numbers)
    return Request.from_message(
        add(f"r{number}", 10, fairness_id=fairness_id, fairness_weight=weight, **fields),
        sequence=number,
        now=0.0,
        eos_token_ids=(),
    )


def pushed(queue: FairQueue, fairness_id: str, weight: float = 1.0, **fields: object) -> Request:
    made = request(fairness_id, weight, **fields)
    queue.push(made)
    return made


def serve(queue: FairQueue, num_input: int, num_output: int = 0) -> Request:
    """Admit the head, let it run and end."""
    head = next(queue.candidates(), None)
    assert head is not None
    assert head.account is not None
    queue.remove(head)
    queue.note_turn(head)
    head.account.charge_input(head, num_input)
    head.account.served += head.output_cost * num_output
    queue.retire(head)
    return head


def test_an_empty_queue_has_no_head() -> None:
    assert next(FairQueue().candidates(), None) is None


def test_within_an_id_first_come_first_served() -> None:
    queue = FairQueue()
    requests = [pushed(queue, "a") for _ in range(4)]
    assert [serve(queue, 10) for _ in range(4)] == requests


def test_the_id_served_least_is_next() -> None:
    queue = FairQueue()
    for _ in range(3):
        pushed(queue, "big")
        pushed(queue, "small")
    order = [serve(queue, 100 if i == 0 else 10).fairness_id for i in range(6)]
    assert order == ["big", "small", "small", "small", "big", "big"]


def test_an_output_token_costs_more_than_an_input_token() -> None:
    queue = FairQueue()
    head = pushed(queue, "a")
    assert head.account is not None
    head.account.charge_input(head, 10)
    assert head.account.served == 10 * INPUT_WEIGHT
    head.account.served += head.output_cost * 10
    assert head.account.served == 10 * INPUT_WEIGHT + 10 * OUTPUT_WEIGHT
    assert OUTPUT_WEIGHT > INPUT_WEIGHT


def test_weights_divide_the_cost() -> None:
    queue = FairQueue()
    for _ in range(40):
        pushed(queue, "heavy", 3.0)
        pushed(queue, "light", 1.0)
    order = [serve(queue, 10).fairness_id for _ in range(40)]
    assert order.count("heavy") == 30
    assert order.count("light") == 10


def test_idling_earns_no_credit() -> None:
    queue = FairQueue()
    for _ in range(20):
        pushed(queue, "busy")
    for _ in range(10):
        serve(queue, 100)
    for _ in range(10):
        pushed(queue, "returning")
    order = [serve(queue, 100).fairness_id for _ in range(10)]
    assert order.count("returning") == 5, "it shares from now on and does not make up for the past"


def test_who_comes_to_an_empty_line_starts_beside_the_one_served_last() -> None:
    queue = FairQueue()
    first = pushed(queue, "first")
    queue.remove(first)
    queue.note_turn(first)
    assert first.account is not None
    first.account.charge_input(first, 500)
    second = pushed(queue, "second")
    assert second.account is not None
    assert second.account.served == 500


def test_nobody_owes_anything_to_a_class_that_came_to_rest() -> None:
    queue = FairQueue()
    for number in range(50):
        pushed(queue, f"id{number}")
    while next(queue.candidates(), None) is not None:
        serve(queue, 10**6)
    assert queue.num_accounts == 0
    queue.check_integrity()


def test_the_earliest_deadline_of_an_id_goes_first_but_not_before_another_id() -> None:
    queue = FairQueue()
    lax, urgent = pushed(queue, "a"), pushed(queue, "a", ttft_ms=100.0)
    other = pushed(queue, "b", ttft_ms=50.0)
    also_urgent = pushed(queue, "a", ttft_ms=100.0)
    assert next(queue.candidates(), None) is urgent, (
        "the ids were served alike, and this one's head came first"
    )
    assert [serve(queue, 100) for _ in range(4)] == [urgent, other, also_urgent, lax]


def test_an_ids_own_priorities_go_before_its_deadlines_but_not_before_another_id() -> None:
    queue = FairQueue()
    plain, urgent = pushed(queue, "a"), pushed(queue, "a", ttft_ms=1.0)
    other = pushed(queue, "b", priority=7)
    last, first = pushed(queue, "a", ttft_ms=1.0, priority=1), pushed(queue, "a", priority=-1)
    assert next(queue.candidates(), None) is other, (
        "the ids were served alike, and this one's head came first"
    )
    assert [serve(queue, 100) for _ in range(5)] == [other, first, urgent, plain, last]


@pytest.mark.parametrize(
    ("late", "urgent"),
    [({"priority": 9}, {"priority": -9}), ({}, {"ttft_ms": 1.0})],
    ids=["priority", "deadline"],
)
def test_every_tenth_turn_of_an_id_is_for_who_came_first(
    late: dict[str, object], urgent: dict[str, object]
) -> None:
    """Nobody's priority keeps another request out for good; other ids' turns do not count."""
    queue = FairQueue()
    pushed(queue, "a", **urgent)
    waiting = [pushed(queue, "a", **late) for _ in range(2)]
    turns = []
    for _ in range(25):
        pushed(queue, "a", **urgent)
        pushed(queue, "b")
        turns += [serve(queue, 10), serve(queue, 10)]
    own = [request for request in turns if request.fairness_id == "a"]
    assert len(own) == 25
    assert [own.index(request) for request in waiting] == [9, 19]
    queue.check_integrity()


def test_who_may_go_before_a_head_that_does_not_fit() -> None:
    """The rest of its id; another id only if that leaves its service within the head's own cost."""
    queue = FairQueue()
    head, behind = pushed(queue, "a"), pushed(queue, "a")
    near, far = pushed(queue, "near"), pushed(queue, "far")
    assert near.account is not None
    assert far.account is not None
    near.account.served, far.account.served = head.num_prompt_tokens, head.num_prompt_tokens + 1
    assert list(queue.candidates()) == [head, behind, near]


def test_an_id_at_its_share_is_passed_over_whole() -> None:
    queue = FairQueue()
    full, other = pushed(queue, "full"), pushed(queue, "other")
    pushed(queue, "full")
    full.holding = Holding("full")
    full.holding.is_full = True
    assert next(queue.candidates(), None) is other
    assert list(queue.candidates()) == [other]


def test_debt_is_not_forgotten_by_leaving_for_a_moment() -> None:
    queue = FairQueue()
    pushed(queue, "greedy")
    pushed(queue, "other")
    serve(queue, 1000)
    pushed(queue, "greedy")
    pushed(queue, "other")
    assert [serve(queue, 10).fairness_id for _ in range(3)] == ["other", "other", "greedy"]


def test_accounts_of_ids_without_requests_or_debt_are_dropped() -> None:
    queue = FairQueue()
    for number in range(50):
        pushed(queue, f"id{number}")
        serve(queue, 10)
    assert len(queue._accounts) <= 2
    queue.check_integrity()


def test_remembered_debts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fairness, "MAX_IDLE_ACCOUNTS", 4)
    queue = FairQueue()
    queue.note_turn(pushed(queue, "stays"))
    for number in range(30):
        pushed(queue, f"id{number}")
    queue._accounts["stays"].served = 5.0
    for number in range(30):
        serve(queue, 10 + number)
    queue._forget_settled_debts()
    assert queue.num_accounts <= 5
    assert "id28" in queue._accounts, "the largest debts are kept"


def test_removal_from_the_middle() -> None:
    queue = FairQueue()
    first, second, third = (pushed(queue, "a") for _ in range(3))
    queue.remove(second)
    queue.retire(second)
    assert serve(queue, 1) is first
    assert serve(queue, 1) is third
    assert next(queue.candidates(), None) is None
    queue.check_integrity()


def test_a_weight_of_zero_is_no_division_by_zero() -> None:
    queue = FairQueue()
    head = pushed(queue, "a", 0.0)
    serve(queue, 1)
    assert head.account is not None
    assert head.account.served == 1 / fairness.MIN_WEIGHT


def test_the_oldests_turn_is_that_of_who_came_first_not_of_who_was_taken_up_first() -> None:
    queue = FairQueue()
    for number in range(OLDEST_EVERY - 1):
        pushed(queue, "a", priority=-1 - number)
    late, first = pushed(queue, "a"), request("a")
    first.arrival_s = late.arrival_s - 1.0
    first.priority = 5
    queue.push(first)
    for _ in range(OLDEST_EVERY - 1):
        serve(queue, 10)
    assert next(queue.candidates()) is first
