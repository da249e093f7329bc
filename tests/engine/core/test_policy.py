"""Whom to preempt, whose prompt goes on, how much room stays."""

from __future__ import annotations

from engine.core.policy import MOST_PREEMPTED, affordable, choose_victim, headroom_pages, step_budget
from engine.core.request import Request
from tests.engine.core.harness import add, config


def request(sequence: int, num_computed: int = 0, request_class: str = "interactive") -> Request:
    made = Request.from_message(
        add(f"r{sequence}", 100, request_class=request_class), sequence=sequence, now=0.0, eos_token_ids=()
    )
    made.num_computed = num_computed
    return made


def test_the_least_computed_work_goes_first() -> None:
    most, least = request(0, 90), request(1, 10)
    assert choose_victim([most, least, request(2, 50)]) is least


def test_batch_goes_before_interactive_however_far_it_is() -> None:
    batch = request(0, 90, "batch")
    assert choose_victim([request(1, 1), batch, request(2, 2)]) is batch


def test_between_equals_the_last_come_goes() -> None:
    last = request(7, 10)
    assert choose_victim([request(3, 10), last, request(5, 10)]) is last


def test_who_was_preempted_often_is_not_chosen_while_another_runs() -> None:
    often, other = request(0, 10, "batch"), request(1, 90)
    often.num_preempted = MOST_PREEMPTED - 1
    assert choose_victim([other, often]) is often
    often.num_preempted = MOST_PREEMPTED
    assert choose_victim([other, often]) is other
    other.num_preempted = MOST_PREEMPTED
    assert choose_victim([other, often]) is often, "one at a time: the one of the higher class"
    assert choose_victim([often]) is often


def test_every_running_request_can_take_a_page_in_every_group() -> None:
    assert headroom_pages(0, 6) == 0
    assert headroom_pages(10, 6) == 60


def test_beside_answers_a_step_is_small_until_enough_prompt_tokens_wait() -> None:
    settings = config(max_num_batched_tokens=2048, max_num_mixed_tokens=512)
    assert [step_budget(0, waiting, settings) for waiting in (0, 10_000)] == [2048, 2048]
    assert [step_budget(answers, 511, settings) for answers in (1, 128, 129, 256)] == [192, 192, 193, 320]
    sizes = [step_budget(answers, 512, settings) for answers in (1, 192, 193, 704, 705, 2000)]
    assert sizes == [512, 512, 1024, 1024, 1536, 2048]


def test_without_a_mixed_size_every_step_has_the_whole_budget() -> None:
    assert step_budget(5, 512, config(max_num_batched_tokens=64)) == 64


def test_seniors_get_the_pages_that_there_are() -> None:
    batch, young, old = request(0, 0, "batch"), request(5), request(2)
    missing = {batch.id: 1, young.id: 2, old.id: 2}
    wants = [(batch, 1), (young, 1), (old, 1)]
    for num_free, ready in ((1, [batch]), (2, [old]), (3, [old, batch]), (4, [old, young])):
        assert affordable(wants, lambda each, end: missing[each.id], num_free) == [
            (each, 1) for each in ready
        ]
