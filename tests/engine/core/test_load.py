"""The figures that go out with every message."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.core.contract import StepResult
from engine.messages import LoadStats
from tests.engine.core.harness import STEP_S, Engine, add, config, layout


def last(engine: Engine) -> LoadStats:
    return engine.emitted[-1][1].load


def test_an_idle_engine_is_empty() -> None:
    engine = Engine(config())
    engine.turn()
    assert last(engine) == LoadStats()


def test_running_waiting_and_pages_are_counted() -> None:
    engine = Engine(config(layout(10), max_num_seqs=2, max_num_queued_reqs=10))
    engine.submit(*(add(f"r{i}", [i] * 20, max_tokens=30) for i in range(5)))
    engine.turn(3)
    load = last(engine)
    assert (load.num_running, load.num_waiting, load.num_waiting_tokens) == (2, 3, 60)
    assert load.kv_usage == 0.4


def test_a_step_in_a_row_lasts_from_the_end_of_the_one_before() -> None:
    engine = Engine(config(steps_in_flight=2))
    engine.submit(add("a", 20, max_tokens=20))
    engine.turn(6)
    assert abs(last(engine).step_ms - STEP_S * 1e3) < 1e-6
    assert last(engine).batch_tokens == 1
    assert last(engine).steps == 5


def test_prefix_counters_count_each_request_once() -> None:
    engine = Engine(config())
    engine.run(add("a", 40, max_tokens=2))
    engine.run(add("b", 40, max_tokens=2))
    assert (last(engine).prefix_queries, last(engine).prefix_hits) == (80, 32)


def test_graphs_of_all_steps_add_up_but_for_those_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(config(), fails_batch=lambda schedule: schedule.step == 3)
    collect = engine.runner.collect

    def with_graphs(handle: Any) -> StepResult:
        return replace(collect(handle), graph_hits=2, graph_misses=1)

    monkeypatch.setattr(engine.runner, "collect", with_graphs)
    engine.submit(add("a", 5, max_tokens=9))
    engine.run()
    load = last(engine)
    assert load.steps >= 3
    assert (load.graph_hits, load.graph_misses) == (2 * (load.steps - 1), load.steps - 1)


def test_waste_is_recounted_now_and_then_and_gone_at_rest() -> None:
    engine = Engine(config(layout(64)))
    engine.submit(add("a", 17, max_tokens=100))
    engine.turn(40)
    assert 0 < last(engine).page_waste < 0.5
    engine.run()
    assert last(engine).page_waste == 0.0


def test_a_line_that_moves_predicts_its_delay() -> None:
    engine = Engine(config(max_num_seqs=1, max_num_queued_reqs=100, debug_invariants=False))
    engine.submit(*(add(f"r{i}", [i] * 10, max_tokens=10) for i in range(60)))
    engine.turn(300)
    load = last(engine)
    per_request_s = 10 * STEP_S
    assert load.num_waiting > 20
    assert 0.8 < load.predicted_queue_delay_s / (load.num_waiting * per_request_s) < 1.3
    engine.run()
    assert last(engine).predicted_queue_delay_s == 0.0


def test_the_batch_is_described() -> None:
    engine = Engine(config(max_num_batched_tokens=32))
    engine.submit(add("a", 10, max_tokens=20))
    engine.turn(3)
    engine.submit(add("b", [7] * 60, max_tokens=20))
    engine.turn(2)
    load = last(engine)
    assert (load.batch_rows, load.batch_tokens, load.batch_prompt_tokens) == (2, 32, 31)
    assert abs(load.busy_s - load.steps * STEP_S) < 1e-6


def test_refusals_and_ids_are_counted() -> None:
    engine = Engine(config(max_num_seqs=1, max_num_queued_reqs=2))
    engine.submit(*(add(f"r{i}", 5, max_tokens=300, fairness_id=f"id{i % 3}") for i in range(6)))
    engine.turn(2)
    load = last(engine)
    assert (load.num_refused, load.num_fairness_ids) == (3, 3)
    assert load.num_waiting == 2
