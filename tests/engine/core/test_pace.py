"""How much a step may hold beside answers that were promised a time between tokens."""

from __future__ import annotations

import pytest

from engine.core.pace import FLOOR, in_turn, keep, tightest
from engine.core.request import Request
from engine.core.steptime import StepSize, StepTimes
from tests.engine.core.harness import add
from tests.engine.core.test_steptime import step

BASE, TOKEN = 0.010, 0.0001


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
    kept = keep(0.040, times, answers(20), 0, block_size=16, budget=512)
    took = times.predict(StepSize(20 + kept.num_prompt_tokens, 21, 0))
    assert 0.034 < took <= 0.040
    assert not kept.is_tight


def test_no_promise_stops_prompts(times: StepTimes) -> None:
    """A tenth of the step's time, and at least one row of a page."""
    kept = keep(0.001, times, answers(200), 0, block_size=16, budget=512)
    base = BASE + 200 * TOKEN
    assert kept.num_prompt_tokens * TOKEN == pytest.approx(base * FLOOR / (1 - FLOOR), rel=0.1)
    assert keep(0.001, times, answers(1), 0, block_size=16, budget=512).num_prompt_tokens == 16
    assert kept.is_tight


def test_before_anything_is_known_little_is_read() -> None:
    assert keep(0.040, StepTimes(), answers(5), 0, block_size=16, budget=512).num_prompt_tokens == 64


def test_the_lower_class_sits_out_what_the_promise_does_not_allow(times: StepTimes) -> None:
    upper, lower = answers(50, tpot_ms=20.0), answers(100, "batch")
    kept = keep(0.020, times, [*upper, *lower], 0, block_size=16, budget=512)
    assert kept.num_lower is not None
    assert BASE + (50 + kept.num_lower) * TOKEN <= 0.020
    assert kept.num_lower > 25
    assert kept.is_tight
    almost_none = keep(0.001, times, [*upper, *lower], 0, block_size=16, budget=512)
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
