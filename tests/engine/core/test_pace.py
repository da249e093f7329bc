"""How much a step may hold beside answers that were promised a time between tokens."""

from __future__ import annotations

import pytest

from engine.core.pace import FLOOR, Allowance, cap, in_turn, keep, tightest
from engine.core.request import Request
from engine.core.steptime import StepSize, StepTimes
from tests.engine.core.harness import add, config, plan_of
from tests.engine.core.test_steptime import step

BASE, TOKEN = 0.010, 0.0001
MANY = 10**6


@pytest.fixture
def times() -> StepTimes:
    """10 ms and 0.1 ms a token."""
    made = StepTimes()
    for _ in range(3):
        for count in (2, 40, 100, 200, 400):
            made.observe(step((0, count)), BASE + TOKEN * count)
    return made


def answers(count: int, request_class: str = "interactive", **fields: object) -> list[tuple[Request, int]]:
    requests = [
        Request.from_message(
            add(f"{request_class}{index}", 5, request_class=request_class, **fields),  # type: ignore[arg-type]
            sequence=index,
            now=0.0,
            eos_token_ids=(),
        )
        for index in range(count)
    ]
    return [(request, 6) for request in requests]


def test_the_tightest_promise_counts() -> None:
    assert tightest(answers(3)) is None
    assert tightest([*answers(2), *answers(1, tpot_ms=50.0), *answers(1, tpot_ms=20.0)]) == 0.02


def test_the_predicted_step_keeps_the_promise(times: StepTimes) -> None:
    kept = keep(0.040, times, answers(20), block_size=16, budget=512)
    took = times.predict(StepSize(20 + kept.prompts.room(0, MANY), 21, 0))
    assert 0.034 < took <= 0.040
    assert not kept.is_tight


def test_no_promise_stops_prompts(times: StepTimes) -> None:
    """A tenth of the step's time, and at least one row of a page."""
    kept = keep(0.001, times, answers(200), block_size=16, budget=512)
    base = BASE + 200 * TOKEN
    assert kept.prompts.room(0, MANY) * TOKEN == pytest.approx(base * FLOOR / (1 - FLOOR), rel=0.1)
    assert keep(0.001, times, answers(1), block_size=16, budget=512).prompts.room(0, MANY) == 16
    assert kept.is_tight


def test_before_anything_is_known_little_is_read() -> None:
    assert keep(0.040, StepTimes(), answers(5), block_size=16, budget=512).prompts.room(0, MANY) == 64


def test_every_row_takes_its_own_time() -> None:
    """Where one prompt is read up to costs the others nothing, and what the rows take together is what there was."""
    times = StepTimes()
    for _ in range(3):
        for position in (0, 1000, 8000):
            for count in (2, 40, 100, 200, 400):
                seconds = (
                    BASE + TOKEN * count + 1e-6 * (position + count) + 1e-7 * count * (position + count / 2)
                )
                times.observe(step((position, count)), seconds)
    left, base = Allowance(times, 0.030), times.predict(StepSize(0, 0, 0))
    far = left.room(8000, MANY)
    left.take(8000, min(far, 10))
    near = left.room(0, MANY)
    assert 10 < far < near
    left.take(0, near)
    size = StepSize(10 + near, 2, 8000 + 10 + near, 10 * 8005 + near * near / 2)
    assert times.predict(size) - base == pytest.approx(0.030, rel=0.03)
    assert left.room(0, MANY) <= 1
    left.give_back(0, near)
    assert left.room(0, MANY) == near


def test_at_least_so_many_tokens_are_read_together(times: StepTimes) -> None:
    left = Allowance(times, 0.0, 16)
    assert left.room(5000, MANY) == 16
    left.take(5000, 10)
    assert left.room(0, MANY) == 6
    left.take(0, 6)
    assert left.room(0, MANY) == 0
    assert Allowance(times).room(0, MANY) == MANY, "nobody was promised anything"


def test_a_plan_is_capped_only_if_something_was_promised(times: StepTimes) -> None:
    plan = plan_of(512)
    free = answers(3)
    assert cap(plan, free, times, config(), step=1) is free
    assert plan.prompts.room(0, MANY) == MANY
    upper, lower = answers(50, tpot_ms=20.0), answers(100, "batch")
    kept = cap(plan, [*upper, *lower], times, config(), step=1)
    assert kept[:50] == upper
    assert 50 < len(kept) < 150
    assert plan.is_tight
    assert plan.prompts.room(0, MANY) < 50


def test_the_lower_class_sits_out_what_the_promise_does_not_allow(times: StepTimes) -> None:
    upper, lower = answers(50, tpot_ms=20.0), answers(100, "batch")
    kept = keep(0.020, times, [*upper, *lower], block_size=16, budget=512)
    assert kept.num_lower is not None
    assert BASE + (50 + kept.num_lower) * TOKEN <= 0.020
    assert kept.num_lower > 25
    assert kept.is_tight
    almost_none = keep(0.001, times, [*upper, *lower], block_size=16, budget=512)
    assert almost_none.num_lower is not None
    assert almost_none.num_lower * TOKEN == pytest.approx(0.1 * (BASE + 150 * TOKEN), rel=0.1)


def test_all_of_the_lower_class_get_their_turns() -> None:
    upper, lower = answers(2), answers(10, "batch")
    got = dict.fromkeys(range(10), 0)
    for number in range(100):
        chosen = in_turn([*lower[:5], *upper, *lower[5:]], 3, number)
        assert len(chosen) == 5
        for request, _ in chosen:
            if request.class_rank:
                got[request.sequence] += 1
    assert max(got.values()) - min(got.values()) <= 1
    assert in_turn(upper, 0, 5) == upper
