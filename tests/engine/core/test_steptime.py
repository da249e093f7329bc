"""The model of a step's time: found again from noisy steps, never absurd, right where it is asked."""

from __future__ import annotations

import random

import pytest

from engine.core.contract import RowWork, ScheduleOutput
from engine.core.step import Step
from engine.core.steptime import StepSize, StepTimes

BASE, TOKEN, ROW, READ, COMPARED = 6e-3, 25e-6, 8e-6, 3e-8, 1.2e-9


def step(*work: tuple[int, int]) -> Step:
    """(start, num_tokens) of each row."""
    items = sorted(
        (RowWork(row, start, num, True) for row, (start, num) in enumerate(work)), key=lambda i: i.num_tokens
    )
    schedule = ScheduleOutput(1, tuple(items))
    return Step(schedule, [], schedule.num_tokens)


def seconds(size: StepSize) -> float:
    return (
        BASE
        + TOKEN * size.num_tokens
        + ROW * size.num_rows
        + READ * size.keys_read
        + COMPARED * size.keys_compared
    )


def taught(rng: random.Random, noise: float, num_steps: int = 600) -> StepTimes:
    times = StepTimes()
    for _ in range(num_steps):
        rows = [(rng.randint(100, 8000), 1) for _ in range(rng.randint(1, 128))]
        if rng.random() < 0.5:
            rows.append((rng.randint(0, 60_000), rng.choice([16, 100, 384, 512, 2048])))
        made = step(*rows)
        times.observe(made, seconds(StepSize.of(made)) * rng.uniform(1 - noise, 1 + noise))
    return times


def test_what_a_step_is() -> None:
    size = StepSize.of(step((10, 1), (20, 1), (100, 50)))
    assert (size.num_tokens, size.num_rows) == (52, 3)
    assert size.keys_read == 11 + 21 + 150
    assert size.keys_compared == 50 * 125


def test_nothing_is_known_before_some_steps_were_seen() -> None:
    times = StepTimes()
    assert not times.is_known
    assert times.predict(StepSize(10, 10, 1000)) == 0.0
    assert times.prompt_tokens_in(0.01, 0) > 10**6, "who asks before looks at is_known"


@pytest.mark.parametrize("noise", [0.0, 0.08])
def test_the_model_predicts_steps_it_has_not_seen(noise: float) -> None:
    rng = random.Random(7)
    times = taught(rng, noise)
    for _ in range(100):
        rows = [(rng.randint(100, 8000), 1) for _ in range(rng.randint(1, 128))]
        size = StepSize.of(step(*rows, (rng.randint(0, 60_000), rng.randint(16, 1500))))
        assert abs(times.predict(size) / seconds(size) - 1) < 0.02 + noise


def test_a_long_time_of_answers_alone_does_not_forget_what_prompts_cost() -> None:
    rng = random.Random(8)
    times = taught(rng, 0.02)
    for _ in range(5000):
        made = step(*((rng.randint(1000, 2000), 1) for _ in range(64)))
        times.observe(made, seconds(StepSize.of(made)))
    size = StepSize.of(step(*[(1500, 1)] * 64, (0, 1000)))
    assert abs(times.predict(size) / seconds(size) - 1) < 0.05


def test_a_new_speed_is_learnt() -> None:
    rng = random.Random(9)
    times = taught(rng, 0.02)
    for _ in range(2000):
        rows = [(rng.randint(100, 8000), 1) for _ in range(rng.randint(1, 128))]
        made = step(*rows, *([(0, rng.choice([16, 100, 384, 512, 2048]))] if rng.random() < 0.5 else []))
        times.observe(made, 2 * seconds(StepSize.of(made)))
    size = StepSize.of(step(*[(1500, 1)] * 64, (0, 500)))
    assert abs(times.predict(size) / (2 * seconds(size)) - 1) < 0.05


def test_how_many_prompt_tokens_fit_is_the_inverse_of_the_prediction() -> None:
    times = taught(random.Random(10), 0.0)
    for position in (0, 1000, 60_000):
        for left in (0.004, 0.02, 0.1):
            count = times.prompt_tokens_in(left, position)
            base = StepSize(40, 40, 40_000)
            with_prompt = StepSize(40 + count, 41, 40_000 + position + count, count * (position + count / 2))
            took = times.predict(with_prompt) - times.predict(base)
            assert left * 0.98 - 1e-3 < took <= left * 1.001
    assert times.prompt_tokens_in(0.0, 0) == 0


def test_equal_steps_only_give_no_absurd_factors() -> None:
    times = StepTimes()
    for _ in range(400):
        times.observe(step(*[(1000, 1)] * 32), 0.01)
    assert times.predict(StepSize(32, 32, 32 * 1001)) == pytest.approx(0.01, rel=1e-3)
    assert 0.01 <= times.predict(StepSize(64, 64, 64 * 1001)) <= 0.0201


def test_steps_without_work_or_time_teach_nothing() -> None:
    times = StepTimes()
    for _ in range(50):
        times.observe(step(), 0.01)
        times.observe(step((0, 10)), 0.0)
    assert not times.is_known
