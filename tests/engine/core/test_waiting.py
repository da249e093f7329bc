"""The line: its order across classes, its bounds, its deadline, and how fast it drains."""

from __future__ import annotations

import itertools

import pytest

from engine.core.request import CLASSES, Phase, Request
from engine.core.waiting import HALF_LIFE_S, RETRY_AFTER_S, DrainMeter, WaitingLine
from tests.engine.core.harness import add, config

numbers = itertools.count()


def request(prompt: int = 10, now: float = 0.0, **fields: object) -> Request:
    number = next(numbers)
    return Request.from_message(
        add(f"r{number}", prompt, **fields),  # type: ignore[arg-type]
        sequence=number,
        now=now,
        eos_token_ids=(),
    )


def line(**changes: object) -> WaitingLine:
    return WaitingLine(config(**changes))


def lined_up(waiting: WaitingLine, prompt: int = 10, now: float = 0.0, **fields: object) -> Request:
    made = request(prompt, now, **fields)
    waiting.add(made)
    return made


def preempted(waiting: WaitingLine, **fields: object) -> Request:
    made = lined_up(waiting, **fields)  # type: ignore[arg-type]
    waiting.take(made)
    made.num_cached_tokens = 0
    waiting.put_back(made)
    return made


def take_all(waiting: WaitingLine) -> list[Request]:
    taken = []
    while (head := next(waiting.candidates(), None)) is not None:
        waiting.take(head)
        taken.append(head)
    return taken


def test_order_is_class_then_preempted_then_arrival() -> None:
    waiting = line()
    batch, batch_preempted = (
        lined_up(waiting, request_class="batch"),
        preempted(waiting, request_class="batch"),
    )
    fresh, old = lined_up(waiting), preempted(waiting)
    older = preempted(waiting)
    assert take_all(waiting) == [old, older, fresh, batch_preempted, batch]
    assert (waiting.num_requests, waiting.num_tokens) == (0, 0)


def test_counts_follow_every_way_in_and_out() -> None:
    waiting = line()
    first, second, third = lined_up(waiting, 10), lined_up(waiting, 20), preempted(waiting)
    assert (waiting.num_requests, waiting.num_tokens) == (3, 40)
    waiting.check_integrity([first, second, third])
    waiting.remove(second)
    waiting.remove(third)
    assert (waiting.num_requests, waiting.num_tokens) == (1, 10)
    waiting.check_integrity([first])


def test_the_number_of_waiting_requests_is_bounded() -> None:
    waiting = line(max_num_queued_reqs=2)
    for _ in range(2):
        assert waiting.place_for(request(), 0) == []
        lined_up(waiting)
    assert waiting.place_for(request(), 0) is None
    assert waiting.place_for(request(), 1) == [], "a free row is not a line"


def test_waiting_tokens_are_bounded_but_a_lone_long_prompt_may_wait() -> None:
    waiting = line(max_num_queued_tokens=50)
    assert waiting.place_for(request(80), 0) == []
    lined_up(waiting, 40)
    assert waiting.place_for(request(10), 0) == []
    assert waiting.place_for(request(11), 0) is None


def test_a_full_line_of_batch_gives_its_last_place_to_an_interactive_request() -> None:
    waiting = line(max_num_queued_reqs=2)
    lined_up(waiting, request_class="batch")
    last = lined_up(waiting, request_class="batch")
    assert waiting.place_for(request(request_class="batch"), 0) is None
    assert waiting.place_for(request(), 0) == [last]


def test_interactive_requests_count_against_batch_ones() -> None:
    waiting = line(max_num_queued_reqs=2)
    for _ in range(2):
        lined_up(waiting)
    assert waiting.place_for(request(request_class="batch"), 0) is None


def test_an_id_that_fills_the_line_gives_places_to_those_with_fewer() -> None:
    waiting = line(max_num_queued_reqs=4)
    flood = [lined_up(waiting, fairness_id="flood") for _ in range(4)]
    assert waiting.place_for(request(fairness_id="flood"), 0) is None
    for number in (3, 2):
        newcomer = request(fairness_id="quiet")
        assert waiting.place_for(newcomer, 0) == [flood[number]], "its last come"
        waiting.remove(flood[number])
        waiting.add(newcomer)
    assert waiting.place_for(request(fairness_id="quiet"), 0) is None, "both have half"
    heavy = request(fairness_id="heavy", fairness_weight=4.0)
    assert waiting.place_for(heavy, 0) == [flood[1]]


def test_a_long_prompt_takes_the_places_of_several_or_of_none() -> None:
    waiting = line(max_num_queued_tokens=100)
    flood = [lined_up(waiting, 20, fairness_id="flood") for _ in range(5)]
    assert waiting.place_for(request(40, fairness_id="quiet"), 0) == [flood[4], flood[3]]
    assert waiting.place_for(request(60, fairness_id="quiet"), 0) is None, (
        "it would have more than the others"
    )
    assert waiting.num_requests == 5


def test_preempted_requests_keep_their_places() -> None:
    waiting = line(max_num_queued_reqs=1)
    preempted(waiting, request_class="batch")
    assert waiting.place_for(request(), 0) is None


@pytest.mark.parametrize("request_class", CLASSES)
def test_overdue_are_those_past_the_timeout_that_never_had_a_row(request_class: str) -> None:
    waiting = line(queue_timeout_s=5.0)
    preempted(waiting, now=0.0)
    late, gone, fine = (lined_up(waiting, now=now, request_class=request_class) for now in (1.0, 1.0, 3.0))
    waiting.remove(gone)
    assert waiting.overdue(5.9) == []
    assert waiting.overdue(6.0) == [late]
    assert waiting.overdue(8.0) == [late, fine]
    assert late.phase is Phase.WAITING


@pytest.mark.parametrize("request_class", CLASSES)
def test_overdue_are_those_who_lost_their_row_that_long_ago(request_class: str) -> None:
    waiting = line(queue_timeout_s=5.0)
    request = preempted(waiting, now=0.0, request_class=request_class)
    assert waiting.overdue(100.0) == [], "it ran until then"
    assert waiting.overdue(104.9) == []
    assert waiting.overdue(105.0) == [request]
    waiting.remove(request)
    waiting.put_back(request)
    assert waiting.overdue(106.0) == [], "it had a row again"


def test_who_was_held_elsewhere_is_overdue_by_its_own_arrival() -> None:
    waiting = line(queue_timeout_s=5.0)
    direct, held = lined_up(waiting, now=3.0), lined_up(waiting, now=1.0)
    assert waiting.overdue(6.0) == [held]
    assert waiting.overdue(8.0) == [held, direct]
    waiting.check_integrity([direct, held])


def test_nothing_waiting_means_no_delay() -> None:
    assert DrainMeter().delay_s(0, 0) == 0.0
    assert line().predicted_delay_s() == 0.0


def test_an_unmeasured_line_says_the_least() -> None:
    assert DrainMeter().delay_s(5, 50) == RETRY_AFTER_S[0]


def test_delay_follows_the_measured_rate() -> None:
    meter = DrainMeter()
    for step in range(200):
        meter.observe(step * 0.1, 1, 100, has_line=True)
    assert abs(meter.delay_s(20, 2000) - 2.0) < 0.05, "ten requests a second, a thousand tokens a second"
    assert abs(meter.delay_s(20, 8000) - 8.0) < 0.1, "long prompts take longer"


def test_time_without_a_line_does_not_count_as_slowness() -> None:
    meter = DrainMeter()
    for step in range(20):
        meter.observe(step * 0.1, 1, 100, has_line=step < 19)
    before = meter.delay_s(10, 1000)
    meter.observe(100.0, 3, 300, has_line=True)
    assert abs(meter.delay_s(10, 1000) - before) < 0.2


def test_a_stuck_line_raises_the_delay_and_a_new_rate_is_learnt() -> None:
    meter = DrainMeter()
    for step in range(100):
        meter.observe(step * 0.1, 1, 100, has_line=True)
    before = meter.delay_s(10, 1000)
    meter.observe(10.0 + HALF_LIFE_S, 0, 0, has_line=True)
    assert meter.delay_s(10, 1000) > 2 * before


def test_retry_after_stays_in_its_bounds() -> None:
    waiting = line()
    assert waiting.retry_after_s() == RETRY_AFTER_S[0]
    waiting.observe(0.0, [])
    for _ in range(100):
        lined_up(waiting)
    waiting.observe(1.0, [request()])
    waiting.observe(50.0, [request()])
    assert waiting.predicted_delay_s() > RETRY_AFTER_S[1]
    assert waiting.retry_after_s() == RETRY_AFTER_S[1]
