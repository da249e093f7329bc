"""Where an answer ends, what the caller is told, and what ran over."""

from __future__ import annotations

import pytest

from engine.core.output import Outbox, end_reason
from engine.core.request import Request
from engine.messages import GrammarSpec, LoadStats, StepOutputs, TokenOutput
from tests.engine.core.fake_runner import expected_answer
from tests.engine.core.harness import Answer, Engine, add, config, layout


def reason(outputs: list[int], **fields: object) -> str | None:
    request = Request.from_message(add("a", 3, **fields), sequence=0, now=0.0, eos_token_ids=(0,))  # type: ignore[arg-type]
    request.token_ids += outputs
    return end_reason(request, outputs[-1])


def test_end_tokens_stop() -> None:
    assert reason([5, 0], ignore_eos=False) == "stop"
    assert reason([5, 9], stop_token_ids=(9,)) == "stop"
    assert reason([5, 0], ignore_eos=True) is None
    assert reason([5, 9], ignore_eos=True, stop_token_ids=(9,)) == "stop"


def test_an_end_token_counts_only_after_min_tokens_others() -> None:
    assert reason([5, 0], ignore_eos=False, min_tokens=2) is None
    assert reason([5, 6, 0], ignore_eos=False, min_tokens=2) == "stop"


def test_a_grammar_may_end_an_answer_before_min_tokens() -> None:
    grammar = GrammarSpec("choice", '["a"]')
    assert reason([5, 0], ignore_eos=False, min_tokens=2, grammar=grammar) == "stop"


@pytest.mark.parametrize("refused", [True, False])
def test_a_row_that_its_own_grammar_left_without_a_choice_is_its_callers_fault(refused: bool) -> None:
    engine = Engine(
        config(),
        fails_row=lambda sampling, position: sampling.grammar is not None and position == 7,
        refuses_rows=refused,
    )
    grammar = GrammarSpec("ebnf", "a+", "structured_outputs.regex")
    engine.run(add("a", 5, grammar=grammar), add("b", 6))
    final = engine.answers["a"].final
    assert (final.finish_reason, final.error_code) == (
        "error",
        "invalid_grammar" if refused else "engine_error",
    )
    assert final.error_param == ("structured_outputs.regex" if refused else None)
    assert engine.answers["b"].final.finish_reason == "length"


def test_max_tokens_is_the_length_and_an_end_token_there_still_stops() -> None:
    assert reason([1, 2, 3], max_tokens=4) is None
    assert reason([1, 2, 3, 4], max_tokens=4) == "length"
    assert reason([1, 2, 3, 0], max_tokens=4, ignore_eos=False) == "stop"


def ended_by_eos(settings_steps: int) -> tuple[Answer, list[int]]:
    """A request that the fake model ends early by itself."""
    engine = Engine(config(steps_in_flight=settings_steps), vocab_size=5)
    for prompt in range(1, 40):
        request = add("a", prompt, max_tokens=50, ignore_eos=False)
        answer, why = expected_answer(request, 5, (0,))
        if why == "stop" and len(answer) > 3:
            engine.run(request)
            return engine.answers["a"], answer
    raise AssertionError("no such prompt")


@pytest.mark.parametrize("steps_in_flight", [1, 2])
def test_the_stop_token_is_the_last_and_overrun_is_what_was_in_flight(steps_in_flight: int) -> None:
    answer, expected = ended_by_eos(steps_in_flight)
    assert answer.tokens == expected
    assert answer.final.stop_token_id == expected[-1] == 0
    assert answer.final.num_overrun_tokens == steps_in_flight - 1


def test_a_length_end_is_foreseen_and_nothing_overruns() -> None:
    engine = Engine(config())
    engine.run(add("a", 5, max_tokens=7))
    final = engine.answers["a"].final
    assert (final.finish_reason, final.num_overrun_tokens, final.stop_token_id) == ("length", 0, None)
    assert len(engine.answers["a"].tokens) == 7


def test_only_the_first_output_says_how_it_began() -> None:
    engine = Engine(config())
    engine.run(add("warm", 40, max_tokens=3))
    engine.run(add("a", 40, max_tokens=3))
    first, *rest = engine.answers["a"].outputs
    assert first.num_cached_tokens == 32
    assert first.queue_ms == 0.0
    assert all(output.num_cached_tokens is None and output.queue_ms is None for output in rest)


def test_logprobs_travel_with_their_token() -> None:
    engine = Engine(config())
    engine.run(add("a", 5, max_tokens=4, num_logprobs=0), add("b", 6, max_tokens=4))
    for output in engine.answers["a"].outputs:
        assert output.logprobs is not None
        assert [each.top_ids for each in output.logprobs] == [[token] for token in output.token_ids]
    assert all(output.logprobs is None for output in engine.answers["b"].outputs)


def test_the_sampler_masks_what_min_tokens_forbids_and_the_answer_goes_on() -> None:
    engine = Engine(config(), vocab_size=3)
    request = add("a", 5, max_tokens=40, min_tokens=20, ignore_eos=False)
    engine.run(request)
    tokens, why = expected_answer(request, 3, (0,))
    assert engine.answers["a"].tokens == tokens
    assert why == "stop"
    assert 0 not in tokens[:20]


def test_an_outbox_sends_to_those_with_news_and_to_the_silent_after_a_heartbeat() -> None:
    sent: list[tuple[int, StepOutputs]] = []
    outbox = Outbox(lambda worker, message: sent.append((worker, message)), 3, heartbeat_s=0.5)
    outbox.flush(LoadStats(), 10.0)
    assert [worker for worker, _ in sent] == [0, 1, 2]
    sent.clear()
    outbox.put(1, TokenOutput(request_id="a", token_ids=[1]))
    outbox.put(1, TokenOutput(request_id="b", token_ids=[2]))
    outbox.flush(LoadStats(), 10.2)
    assert [(worker, len(message.outputs)) for worker, message in sent] == [(1, 2)]
    outbox.flush(LoadStats(), 10.5)
    assert [worker for worker, _ in sent] == [1, 0, 2]


def test_a_worker_that_is_gone_is_told_nothing_more() -> None:
    sent: list[StepOutputs] = []
    outbox = Outbox(lambda worker, message: sent.append(message), 1, heartbeat_s=0.5)
    outbox.put(0, TokenOutput(request_id="a"))
    outbox.silence(0)
    outbox.flush(LoadStats(), 0.0)
    assert [message.outputs for message in sent] == [[]]


def prompt_values(answer: Answer) -> list[float]:
    return [entry.token_logprob for output in answer.outputs for entry in output.prompt_logprobs or []]


@pytest.mark.parametrize("steps_in_flight", [1, 2])
def test_each_prompt_token_is_reported_once_and_before_the_answer(steps_in_flight: int) -> None:
    """In chunks of 64, beside a request that shares the beginning and does not ask."""
    prompt = list(range(100, 250))
    engine = Engine(config(steps_in_flight=steps_in_flight))
    engine.run(add("a", prompt, num_prompt_logprobs=0), add("b", prompt))
    assert prompt_values(engine.answers["a"]) == [-token for token in prompt[1:]]
    assert prompt_values(engine.answers["b"]) == []
    kinds = [bool(output.token_ids) for output in engine.answers["a"].outputs]
    assert kinds == sorted(kinds), "the prompt comes first"
    assert len(engine.answers["a"].outputs[0].prompt_logprobs or []) == 64
    assert engine.answers["a"].outputs[0].num_cached_tokens == 0


def test_who_asks_for_the_prompt_skips_the_cache_but_fills_it() -> None:
    """Duty engine-15: log-probabilities of a prompt are whole whatever the prefix cache holds."""
    prompt = list(range(100, 200))
    engine = Engine(config())
    engine.run(add("a", prompt))
    engine.run(add("b", prompt, num_prompt_logprobs=2))
    engine.run(add("c", prompt))
    cached = [engine.answers[name].outputs[0].num_cached_tokens for name in "abc"]
    assert cached == [0, 0, 96]
    assert len(prompt_values(engine.answers["b"])) == 99


def test_a_preempted_request_reports_its_prompt_once() -> None:
    """Two long answers in a pool that holds one and a half: the younger one starts over, more than once."""
    engine = Engine(config(layout(12), max_num_batched_tokens=16, enable_prefix_caching=False))
    prompts = {"a": list(range(100, 160)), "b": list(range(200, 260))}
    engine.run(*[add(name, prompt, 60, num_prompt_logprobs=0) for name, prompt in prompts.items()])
    assert engine.emitted[-1][1].load.num_preemptions > 0
    for name, prompt in prompts.items():
        assert prompt_values(engine.answers[name]) == [-token for token in prompt[1:]]
