"""engine.bench.workload: exact lengths, the same from the same seed, Poisson arrivals."""

from __future__ import annotations

import itertools

import pytest

from engine.bench.workload import Workload, arrivals


def test_prompts_have_exact_length_and_a_shared_beginning() -> None:
    workload = Workload(4, 20, 8, seed=3, shared_prefix_tokens=50)
    prompts = [workload.prompt(index) for index in range(4)]
    assert {len(prompt) for prompt in prompts} == {70}
    assert len({tuple(prompt[:50]) for prompt in prompts}) == 1
    assert len({tuple(prompt[50:]) for prompt in prompts}) == 4
    assert prompts == [
        Workload(4, 20, 8, seed=3, shared_prefix_tokens=50).prompt(index) for index in range(4)
    ]
    assert workload.prompt(0) != Workload(4, 20, 8, seed=4, shared_prefix_tokens=50).prompt(0)
    other_lengths = Workload(4, 30, 8, seed=3, shared_prefix_tokens=50)
    assert other_lengths.prompt(0)[:8] != prompts[0][:8], "another row must not find its prompts in the cache"


def test_arrivals_of_a_closed_loop_are_at_once_and_poisson_ones_keep_the_rate() -> None:
    assert Workload(3, 1, 1).arrivals(None) == [0.0] * 3
    times = Workload(20_000, 1, 1).arrivals(8.0)
    gaps = [after - before for before, after in itertools.pairwise(times)]
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(1 / 8, rel=0.03)
    deviation = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert deviation == pytest.approx(mean, rel=0.05), "exponential gaps deviate by their mean"


def test_arrivals_have_the_rate_and_follow_from_the_seed() -> None:
    times = arrivals(4000, 50.0, "3")
    assert times == sorted(times) == arrivals(4000, 50.0, "3")
    assert times[0] > 0
    assert times[-1] == pytest.approx(80), "the offered rate is exact whatever the draw"
    assert arrivals(1, 4.0, "3") == [0.25]
    assert arrivals(0, 4.0, "3") == []
    assert times != arrivals(4000, 50.0, "4")
