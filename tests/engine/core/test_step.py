"""A plan becomes a step in the contract's order."""

from __future__ import annotations

import pytest

from engine.core.request import Request
from engine.core.step import Step
from tests.engine.core.harness import add, plan_of


def request(row: int) -> Request:
    made = Request.from_message(add(f"r{row}", 10), sequence=row, now=0.0, eos_token_ids=())
    made.row = row
    return made


def test_work_is_in_ascending_order_of_tokens_then_row_beside_its_requests() -> None:
    plan, rows = plan_of(100), [request(row) for row in range(4)]
    plan.add(rows[2], 0, 30, False)
    plan.add(rows[3], 7, 1, True)
    plan.add(rows[0], 0, 30, True)
    plan.add(rows[1], 9, 1, True)
    step = Step.from_plan(5, plan, [6, 7])
    assert [(work.num_tokens, work.row) for work in step.schedule.work] == [(1, 1), (1, 3), (30, 0), (30, 2)]
    assert [owner.row for owner in step.requests] == [1, 3, 0, 2]
    assert step.num_tokens == step.schedule.num_tokens == 62
    assert (step.schedule.step, step.schedule.freed_rows) == (5, (6, 7))


def test_the_budget_cannot_be_overdrawn() -> None:
    plan = plan_of(10)
    plan.add(request(0), 0, 10, False)
    with pytest.raises(AssertionError):
        plan.add(request(1), 0, 1, False)


def test_ignoring_a_request_marks_its_row_only() -> None:
    plan, rows = plan_of(10), [request(0), request(1)]
    for each in rows:
        plan.add(each, 0, 1, True)
    step = Step.from_plan(1, plan, [])
    step.ignore(rows[1])
    step.ignore(request(0))
    assert step.ignored_rows == {1}
