"""Means of what was asked for, and the rate that the engine could sustain of it."""

from __future__ import annotations

from engine.core.demand import Demand
from engine.core.kv import KVManager
from engine.core.request import Request
from engine.core.steptime import StepTimes
from tests.engine.core.harness import Engine, add, config, layout
from tests.engine.core.test_steptime import step


def finished(prompt: int, output: int, cached: int = 0) -> Request:
    made = Request.from_message(add("r", prompt), sequence=0, now=0.0, eos_token_ids=())
    made.num_cached_tokens = cached
    made.token_ids += [1] * output
    return made


def test_the_means_follow_what_comes() -> None:
    demand = Demand()
    demand.finished(finished(100, 10, 20))
    assert (demand.num_prompt_tokens, demand.num_uncached_tokens, demand.num_output_tokens) == (100, 80, 10)
    for _ in range(1000):
        demand.finished(finished(300, 30))
    assert abs(demand.num_prompt_tokens - 300) < 1
    assert abs(demand.num_output_tokens - 30) < 0.1


def test_who_was_never_served_says_nothing() -> None:
    demand = Demand()
    demand.finished(Request.from_message(add("r", 50), sequence=0, now=0.0, eos_token_ids=()))
    demand.finished(finished(50, 0))
    assert demand.num_prompt_tokens == 0


def test_the_sustainable_rate_is_that_of_full_rows() -> None:
    """10 ms and 0.1 ms a token; 8 rows that answer 16 tokens each to 32: 8 + 16 tokens a step, half a request."""
    times = StepTimes()
    for count in (2, 10, 40, 100, 200, 400, 512):
        times.observe(step((0, count)), 0.010 + 0.0001 * count)
    demand, settings = Demand(), config(layout(1000), max_num_seqs=8)
    assert demand.sustainable_rps(times, KVManager(settings), settings) == 0.0
    demand.finished(finished(32, 16))
    rate = demand.sustainable_rps(times, KVManager(settings), settings)
    assert abs(rate - 0.5 / 0.0124) < 1.0
    few_pages = config(layout(6), max_num_seqs=8)
    assert demand.sustainable_rps(times, KVManager(few_pages), few_pages) < rate / 2


def test_a_saturated_engine_answers_about_as_many_as_it_predicted() -> None:
    engine = Engine(
        config(layout(1000), max_num_queued_reqs=10_000, max_num_queued_tokens=10**7, queue_timeout_s=1e9)
    )
    engine.submit(*(add(f"r{i}", [i] * 24, max_tokens=20) for i in range(600)))
    engine.turn(400)
    before, began = sum(bool(answer.finals) for answer in engine.answers.values()), engine.now
    predicted = engine.emitted[-1][1].load.sustainable_rps
    engine.turn(500)
    done = sum(bool(answer.finals) for answer in engine.answers.values()) - before
    assert abs(predicted / (done / (engine.now - began)) - 1) < 0.25
