"""The loop through its ports: messages in, steps to the runner, one message a step and worker out."""

from __future__ import annotations

import msgspec
import pytest

from engine.core.loop import STEP_FAILED
from engine.messages import Shutdown, WorkerGone
from tests.engine.core.fake_runner import expected_answer, expected_embedding
from tests.engine.core.harness import Engine, add, config, layout


@pytest.mark.parametrize("steps_in_flight", [1, 2])
@pytest.mark.parametrize("windows", [(None,), (None, 20), (8,), (None, 5, 33)])
def test_answers_equal_the_definition_whatever_runs_beside(
    steps_in_flight: int, windows: tuple[int | None, ...]
) -> None:
    settings = config(layout(40, windows=windows), steps_in_flight=steps_in_flight)
    engine = Engine(settings)
    requests = [
        add(f"r{i}", i * 7 % 50 + 1, max_tokens=20 + i % 13, ignore_eos=i % 2 == 0) for i in range(40)
    ]
    engine.run(*requests)
    for request in requests:
        answer = engine.answers[request.request_id]
        assert (answer.tokens, answer.reason) == expected_answer(request, 97, settings.eos_token_ids)
    assert engine.runner.max_in_flight == steps_in_flight


def kinds(engine: Engine) -> dict[str, str | None]:
    return {id: answer.reason for id, answer in engine.answers.items()}


def test_a_step_is_launched_before_the_one_before_is_collected() -> None:
    engine = Engine(config())
    engine.submit(add("a", 5, max_tokens=10))
    engine.turn()
    assert engine.answers["a"].outputs == []
    engine.turn()
    assert len(engine.answers["a"].tokens) == 1
    assert engine.loop._flights[0].step.schedule.step == 2


@pytest.mark.parametrize("turns", range(6))
def test_abort_ends_a_request_wherever_it_is_and_counts_what_was_in_flight(turns: int) -> None:
    engine = Engine(config(max_num_batched_tokens=16))
    engine.submit(add("a", 40, max_tokens=10))
    engine.turn(turns)
    seen = len(engine.answers["a"].tokens)
    engine.abort("a", "unknown")
    engine.turn()
    final = engine.answers["a"].final
    assert final.finish_reason == "abort"
    assert len(engine.answers["a"].tokens) == seen
    assert final.num_overrun_tokens == (1 if turns >= 3 else 0), "three chunks, then tokens"
    engine.run()
    assert engine.emitted[-1][1].load.kv_usage == 0.0


def test_abort_of_a_waiting_request() -> None:
    engine = Engine(config(max_num_seqs=1))
    engine.submit(add("a", 5, max_tokens=50), add("b", 5))
    engine.turn(2)
    engine.abort("b")
    engine.run()
    assert kinds(engine) == {"a": "length", "b": "abort"}
    assert engine.answers["b"].final.num_cached_tokens is None


def test_add_and_abort_in_one_batch_of_messages() -> None:
    engine = Engine(config())
    engine.submit(add("a", 5))
    engine.abort("a", "a")
    engine.run()
    assert kinds(engine) == {"a": "abort"}
    assert engine.loop._scheduler.num_steps == 0


def test_each_worker_hears_of_its_own_requests() -> None:
    engine = Engine(config(num_workers=3))
    engine.run(add("a", 5, worker=0), add("b", 6, worker=2))
    for worker, message in engine.emitted:
        assert {output.request_id for output in message.outputs} <= [{"a"}, set(), {"b"}][worker]
    per_step = [worker for worker, message in engine.emitted if message.outputs]
    assert per_step.count(0) == per_step.count(2) == 8


def test_an_idle_engine_beats_at_least_once_a_second() -> None:
    engine = Engine(config(num_workers=2))
    engine.turn(10)
    assert engine.now <= 10 * 1.0
    assert [worker for worker, _ in engine.emitted] == [0, 1] * 10
    assert all(message.outputs == [] for _, message in engine.emitted)


def test_a_dead_workers_requests_end_without_a_word() -> None:
    engine = Engine(config(num_workers=2))
    engine.submit(add("a", 5, worker=0, max_tokens=30), add("b", 6, worker=1, max_tokens=30))
    engine.turn(4)
    heard = len(engine.answers["b"].outputs)
    engine.run(WorkerGone(worker=1))
    assert engine.answers["a"].reason == "length"
    assert len(engine.answers["b"].outputs) == heard
    assert engine.answers["b"].finals == []


def test_shutdown_aborts_what_is_left_and_run_returns() -> None:
    engine = Engine(config(max_num_seqs=1))
    engine.submit(add("a", 5, max_tokens=50), add("b", 6))
    engine.turn(3)
    engine.submit(Shutdown(), add("late", 7))
    engine.loop.run()
    assert kinds(engine) == {"a": "abort", "b": "abort", "late": "abort"}
    assert engine.loop.is_idle
    engine.loop.check_integrity()


def test_a_second_request_of_a_live_name_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine(config())
    engine.run(add("a", 5, max_tokens=4), add("a", 9, max_tokens=9))
    assert len(engine.answers["a"].tokens) == 4
    assert engine.answers["a"].reason == "length"
    assert "live already" in caplog.text
    engine.run(add("b", 5))
    assert engine.answers["b"].reason == "length"


def test_what_does_not_fit_is_refused_at_once() -> None:
    engine = Engine(config(max_model_len=50))
    engine.run(add("long", 50, max_tokens=1), add("a", 5))
    assert engine.answers["long"].final.error_code == "context_length_exceeded"
    assert "context is 50 tokens" in (engine.answers["long"].final.error_message or "")
    assert engine.answers["a"].reason == "length"


def test_a_full_line_refuses_and_says_when_to_come_back() -> None:
    engine = Engine(config(max_num_seqs=1, max_num_queued_reqs=2))
    engine.run(*(add(f"r{i}", 5) for i in range(6)))
    codes = [engine.answers[f"r{i}"].final.error_code for i in range(6)]
    assert codes == [None] * 3 + ["server_is_overloaded"] * 3
    assert engine.answers["r5"].final.retry_after_s == 1.0


def test_who_waits_too_long_is_told_so() -> None:
    engine = Engine(config(max_num_seqs=1, queue_timeout_s=0.2))
    engine.run(add("a", 5, max_tokens=100), add("b", 5), add("c", 5))
    assert kinds(engine) == {"a": "length", "b": "error", "c": "error"}
    final = engine.answers["b"].final
    assert final.error_code == "server_is_overloaded"
    assert final.retry_after_s is not None
    assert final.retry_after_s >= 1.0
    assert final.num_overrun_tokens == 0


def test_the_time_that_a_request_was_held_is_part_of_its_wait() -> None:
    engine = Engine(config(max_num_seqs=1, queue_timeout_s=5.0))
    engine.submit(add("a", 5, max_tokens=20))
    engine.turn(2)
    engine.run(add("late", 5, held_s=4.9), add("fine", 5, held_s=4.0))
    assert kinds(engine) == {"a": "length", "late": "error", "fine": "length"}
    queue_ms = engine.answers["fine"].outputs[0].queue_ms
    assert queue_ms is not None
    assert queue_ms > 4000


@pytest.mark.parametrize("steps_in_flight", [1, 2])
def test_a_failed_batch_ends_its_requests_and_the_engine_goes_on(
    steps_in_flight: int, caplog: pytest.LogCaptureFixture
) -> None:
    settings = config(steps_in_flight=steps_in_flight)
    engine = Engine(settings, fails_batch=lambda schedule: schedule.step == 4)
    early = [add(f"early{i}", 40, max_tokens=20) for i in range(2)]
    engine.submit(*early)
    engine.turn(4)
    late = [add(f"late{i}", 40, max_tokens=20) for i in range(3)]
    engine.run(*late)
    for request in early:
        final = engine.answers[request.request_id].final
        assert (final.finish_reason, final.error_code) == ("error", "engine_error")
        assert final.error_message == STEP_FAILED  # and nothing of why
    for request in late:
        assert engine.answers[request.request_id].tokens == expected_answer(request, 97, (0,))[0]
    assert "step 4 failed" in caplog.text
    assert "injected" in caplog.text


def test_nothing_of_a_failed_prompt_is_found_by_those_who_hit_it_meanwhile() -> None:
    """The first request's prompt fills pages in a step that fails; the second one, scheduled while that
    step ran, shares them and must start over; the third comes afterwards and must not find them."""
    engine = Engine(config(), fails_batch=lambda schedule: schedule.step == 1)
    requests = [add(f"r{i}", 60, max_tokens=5) for i in range(3)]
    engine.submit(requests[0])
    engine.turn()
    engine.submit(requests[1])
    engine.turn()
    assert engine.loop._scheduler.live["r1"].num_computed == 0
    engine.run(requests[2])
    assert engine.answers["r0"].reason == "error"
    for request in requests[1:]:
        assert engine.answers[request.request_id].tokens == expected_answer(request, 97, (0,))[0]


def test_one_rows_failure_is_its_own() -> None:
    engine = Engine(config(), fails_row=lambda sampling, position: sampling.seed == 3 and position == 14)
    requests = [add(f"r{i}", 10, max_tokens=9, seed=i, cache_salt=bytes([i])) for i in range(5)]
    engine.run(*requests)
    assert kinds(engine) == {f"r{i}": "error" if i == 3 else "length" for i in range(5)}
    final = engine.answers["r3"].final
    assert (final.error_code, final.error_message) == ("engine_error", "injected row failure")
    assert engine.answers["r3"].tokens == expected_answer(requests[3], 97, (0,))[0][:4]
    for i in (0, 1, 2, 4):
        assert engine.answers[f"r{i}"].tokens == expected_answer(requests[i], 97, (0,))[0]


def test_who_shares_a_failed_rows_prompt_starts_over() -> None:
    """Equal prompts in one step: the one that computes the shared pages fails."""
    engine = Engine(config(), fails_row=lambda sampling, position: sampling.num_logprobs == 0)
    requests = [add(f"r{i}", 40, max_tokens=6, num_logprobs=None if i else 0) for i in range(3)]
    engine.run(*requests)
    assert kinds(engine) == {"r0": "error", "r1": "length", "r2": "length"}
    for request in requests[1:]:
        assert engine.answers[request.request_id].tokens == expected_answer(request, 97, (0,))[0]


def test_a_lost_runner_is_an_exception() -> None:
    engine = Engine(config())

    def lose(handle: object) -> None:
        raise RuntimeError("device lost")

    engine.runner.collect = lose  # type: ignore[assignment,method-assign]
    engine.submit(add("a", 5))
    with pytest.raises(RuntimeError, match="device lost"):
        engine.turn(3)


def test_integrity_is_checked_when_a_heartbeat_went_by_without_work(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(config(debug_invariants=False))
    checks: list[float] = []
    monkeypatch.setattr(engine.loop, "check_integrity", lambda: checks.append(engine.now))
    engine.submit(add("a", 5))
    engine.turn(30)
    assert len(checks) == 1, "once after the work, not at every beat"


def test_a_request_that_nothing_moves_is_a_bug_and_not_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(config())
    monkeypatch.setattr(engine.loop._scheduler, "schedule", lambda now: None)
    engine.submit(add("a", 5))
    with pytest.raises(AssertionError, match="nothing will ever move"):
        engine.turn()


@pytest.mark.parametrize("stream_class", ["interactive", "batch"])
def test_an_answer_begun_elsewhere_goes_on_as_if_it_had_not_been_cut(stream_class: str) -> None:
    """At every token, with limits that count the whole answer; what the other engine sampled is not sent again."""
    whole = add("w", 20, max_tokens=12, min_tokens=7, ignore_eos=False, stop_token_ids=tuple(range(1, 40)))
    answer, reason = expected_answer(whole, 97, (0,))
    assert len(answer) > 6
    for cut in range(len(answer)):
        engine = Engine(config())
        engine.run(msgspec.structs.replace(whole, output_token_ids=answer[:cut], request_class=stream_class))
        assert (engine.answers["w"].tokens, engine.answers["w"].reason) == (answer[cut:], reason)


def test_an_answer_that_is_whole_already_is_refused() -> None:
    engine = Engine(config())
    engine.run(msgspec.structs.replace(add("w", 20, max_tokens=3), output_token_ids=[5, 6, 7]))
    assert engine.answers["w"].final.error_code == "engine_error"


def test_a_resumed_answer_is_read_from_the_cache_and_charged_as_a_prompt() -> None:
    engine = Engine(config())
    first = add("a", 20, max_tokens=30)
    engine.run(first)
    answer = engine.answers["a"].tokens
    engine.run(msgspec.structs.replace(first, request_id="b", output_token_ids=answer[:25]))
    assert engine.answers["b"].tokens == answer[25:]
    assert engine.answers["b"].outputs[0].num_cached_tokens == 32


@pytest.mark.parametrize("swaps", [False, True])
@pytest.mark.parametrize("kind", ["last", "mean"])
def test_embeddings_are_made_among_answers(kind: str, swaps: bool) -> None:
    """One terminal output each, no token, no overrun; in chunks, through preemption, and again from the cache, but for
    a mean, which needs every position."""
    pages = layout(24, num_host_blocks=40 if swaps else 0)
    engine = Engine(config(pages, max_num_batched_tokens=40, swaps=swaps))
    answers = [add(f"a{index}", 20, max_tokens=60) for index in range(3)]
    wanted = [add(f"e{index}", [7 + index, *range(90)], 1, pooling=kind) for index in range(4)]
    engine.run(*answers, *wanted)
    again = [msgspec.structs.replace(wanted[0], request_id=name) for name in ("once more", "again")]
    for request in again:
        engine.run(request)
    for request in (*wanted, *again):
        final = engine.answers[request.request_id].final
        assert final.embedding == expected_embedding(request)
        assert (final.token_ids, final.finish_reason, final.num_overrun_tokens) == ([], "stop", 0)
    cached = engine.answers["again"].final.num_cached_tokens
    assert cached == (0 if kind == "mean" else 80)
    for request in answers:
        assert engine.answers[request.request_id].tokens == expected_answer(request, 97, (0,))[0]


@pytest.mark.parametrize("swaps", [False, True])
def test_a_mean_that_is_preempted_begins_anew(swaps: bool) -> None:
    """Its sum is not in the pages that could be kept for it."""
    pages = layout(42, num_host_blocks=60 if swaps else 0)
    engine = Engine(config(pages, max_num_batched_tokens=16, swaps=swaps))
    engine.runner.keeps_schedules = True
    request = add("e", 500, 1, pooling="mean", request_class="batch")
    engine.submit(*[add(f"a{index}", [index, *range(19)], max_tokens=60) for index in range(3)])
    engine.turn(6)
    engine.run(request)
    news = [init for schedule in engine.runner.schedules for init in schedule.new_rows]
    assert [init.num_prompt_tokens for init in news].count(500) > 1, "it was preempted"
    assert engine.answers["e"].final.embedding == expected_embedding(request)
