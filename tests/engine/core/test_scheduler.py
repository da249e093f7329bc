"""One budget, chunks, rows, preemption, recovery: what each schedule contains."""

from __future__ import annotations

import pytest

from engine.core import pace
from engine.core.contract import ScheduleOutput
from engine.core.request import Phase, Request
from engine.core.scheduler import Scheduler
from engine.core.step import Step, StepPlan
from tests.engine.core.harness import Engine, add, config, layout


def scheduler(**changes: object) -> Scheduler:
    return Scheduler(config(**changes))


def lined_up(owner: Scheduler, id: str, prompt: list[int] | int, **fields: object) -> Request:
    request = Request.from_message(
        add(id, prompt, **fields),  # type: ignore[arg-type]
        sequence=len(owner.live),
        now=0.0,
        eos_token_ids=(0,),
    )
    owner.add(request)
    return request


def scheduled(owner: Scheduler, now: float = 0.0) -> Step:
    step = owner.schedule(now)
    assert step is not None
    return step


def sampled(owner: Scheduler, step: Step) -> None:
    """Collect a step whose every sampled token is 1."""
    for work, request in zip(step.schedule.work, step.requests, strict=True):
        if work.samples and request.phase is not Phase.FINISHED:
            request.token_ids.append(1)
    owner.retire(step)


def work(step: Step) -> list[tuple[str, int, int, bool]]:
    return [
        (owner.id, item.start, item.num_tokens, item.samples)
        for item, owner in zip(step.schedule.work, step.requests, strict=True)
    ]


def test_nothing_to_do_is_no_step() -> None:
    assert scheduler().schedule(0.0) is None


def test_a_long_prompt_is_cut_at_the_budget_and_samples_at_its_end() -> None:
    owner = scheduler(max_num_batched_tokens=64)
    lined_up(owner, "a", 150)
    steps = [scheduled(owner) for _ in range(3)]
    assert [work(step) for step in steps] == [
        [("a", 0, 64, False)],
        [("a", 64, 64, False)],
        [("a", 128, 22, True)],
    ]


def test_the_next_step_of_a_row_does_not_wait_for_its_token() -> None:
    owner = scheduler()
    request = lined_up(owner, "a", 10)
    scheduled(owner)
    assert work(scheduled(owner)) == [("a", 10, 1, True)]
    assert (request.num_tokens, len(request.token_ids), request.num_unseen_tokens) == (12, 10, 2)


def test_answers_go_before_prompts_and_prompts_share_the_rest() -> None:
    owner = scheduler(max_num_batched_tokens=40)
    lined_up(owner, "a", [1] * 8)
    scheduled(owner)
    lined_up(owner, "b", [2] * 60)
    lined_up(owner, "c", [3] * 20)
    assert work(scheduled(owner)) == [("a", 8, 1, True), ("b", 0, 39, False)]
    assert work(scheduled(owner)) == [("a", 9, 1, True), ("c", 0, 18, False), ("b", 39, 21, True)]


def test_beside_answers_prompts_come_in_small_steps_or_in_full_ones() -> None:
    owner = scheduler(max_num_batched_tokens=64, max_num_mixed_tokens=32)
    lined_up(owner, "a", [1] * 50)
    assert work(scheduled(owner)) == [("a", 0, 50, True)]
    lined_up(owner, "b", [2] * 40)
    assert [work(scheduled(owner)) for _ in range(3)] == [
        [("a", 50, 1, True), ("b", 0, 31, False)],
        [("a", 51, 1, True), ("b", 31, 9, True)],
        [("a", 52, 1, True), ("b", 40, 1, True)],
    ]
    lined_up(owner, "c", [3] * 20)
    assert [work(scheduled(owner))[2:] for _ in range(2)] == [[("c", 0, 10, False)], [("c", 10, 10, True)]]


def test_a_batch_prompt_yields_the_budget_to_an_interactive_one() -> None:
    owner = scheduler(max_num_batched_tokens=32)
    lined_up(owner, "batch", [1] * 60, request_class="batch")
    scheduled(owner)
    owner._config = config(max_num_batched_tokens=64)
    lined_up(owner, "now", [2] * 80)
    assert work(scheduled(owner)) == [("now", 0, 64, False)], "also while it waits"
    owner._config = config(max_num_batched_tokens=30)
    assert work(scheduled(owner)) == [("batch", 32, 14, False), ("now", 64, 16, True)]


def test_prompts_that_arrive_together_share_their_pages_in_the_same_step() -> None:
    owner = scheduler()
    first, second = lined_up(owner, "a", 40), lined_up(owner, "b", 40)
    assert work(scheduled(owner)) == [("b", 32, 8, True), ("a", 0, 40, True)]
    assert first.tables[0][:2] == second.tables[0][:2]
    assert (first.num_cached_tokens, second.num_cached_tokens) == (0, 32)


def test_a_new_row_gets_all_its_tokens_and_pages() -> None:
    owner = scheduler()
    request = lined_up(owner, "a", 40, seed=5)
    (init,) = scheduled(owner).schedule.new_rows
    assert list(init.token_ids) == request.token_ids
    assert (init.row, init.num_prompt_tokens, init.sampling.seed) == (0, 40, 5)
    assert [len(table) for table in init.block_ids] == [3], "the pages of the whole prompt"


def test_pages_are_appended_when_the_last_one_is_full() -> None:
    owner = scheduler()
    lined_up(owner, "a", 15, max_tokens=40)
    lengths = [[len(append.block_ids) for append in scheduled(owner).schedule.appends] for _ in range(19)]
    assert lengths == [[]] * 2 + [[1]] + [[]] * 15 + [[1]]


def test_nothing_is_admitted_without_a_row() -> None:
    owner = scheduler(max_num_seqs=2)
    for id in "abc":
        lined_up(owner, id, [ord(id)] * 5)
    scheduled(owner)
    assert (owner.num_running, owner.num_free_rows, owner.waiting.num_requests) == (2, 0, 1)


def test_a_freed_row_may_be_given_away_in_the_same_schedule() -> None:
    owner = scheduler(max_num_seqs=1)
    first = lined_up(owner, "a", [1] * 5)
    step = scheduled(owner)
    lined_up(owner, "b", [2] * 5)
    owner.finish(first)
    following = scheduled(owner)
    assert following.schedule.freed_rows == (0,)
    assert following.schedule.new_rows[0].row == 0
    assert first.tables, "its pages wait for the step in flight"
    owner.retire(step)
    assert not first.tables
    owner.check_integrity()


def test_pages_are_not_free_before_the_last_step_that_touches_them_is_collected() -> None:
    """Duty engine-20: no page changes hands under a launched step."""
    owner = scheduler()
    request = lined_up(owner, "a", 20)
    first, second = scheduled(owner), scheduled(owner)
    owner.finish(request)
    owner.retire(first)
    assert owner.kv.pool.num_held == 2
    owner.retire(second)
    assert owner.kv.pool.num_held == 0


def test_admission_waits_until_the_whole_prompt_fits() -> None:
    owner = scheduler(layout=layout(8))
    first = lined_up(owner, "a", [1] * 63, max_tokens=1)
    step = scheduled(owner)
    second = lined_up(owner, "b", [2] * 64)
    assert owner.schedule(0.0) is None
    assert second.phase is Phase.WAITING, "four pages are free, but the running request may need its next"
    assert second.pages_wanted == 4
    owner.finish(first)
    owner.retire(step)
    assert work(scheduled(owner)) == [("b", 0, 64, True)]


def test_the_head_is_not_searched_for_again_while_it_cannot_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = scheduler(layout=layout(8), max_num_batched_tokens=64)
    lined_up(owner, "a", [1] * 64)
    scheduled(owner)
    lined_up(owner, "b", [2] * 64)
    scheduled(owner)
    searched: list[str] = []
    match = owner.kv.match
    monkeypatch.setattr(owner.kv, "match", lambda request: searched.append(request.id) or match(request))
    for _ in range(5):
        scheduled(owner)
    assert searched == []


def shortage(owner: Scheduler, **second: object) -> tuple[Request, Request, Step]:
    """Two requests whose next token needs a page each while one page is free."""
    first = lined_up(owner, "first", [1] * 32, max_tokens=40)
    other = lined_up(owner, "second", [2] * 16, max_tokens=40, **second)
    step = scheduled(owner)
    assert owner.kv.pool.num_free == 1
    return first, other, step


def test_the_least_computed_is_preempted_and_re_admitted_first() -> None:
    """Duty engine-6: the cheapest victim, and its place is not lost."""
    owner = scheduler(layout=layout(4))
    first, second, step = shortage(owner)
    sampled(owner, step)
    step = scheduled(owner)
    assert work(step) == [("first", 32, 1, True)]
    assert (second.phase, second.num_computed, owner.num_preemptions) == (Phase.WAITING, 0, 1)
    lined_up(owner, "third", [3] * 5)
    sampled(owner, step)
    owner.finish(first)
    step = scheduled(owner)
    assert work(step) == [("second", 16, 1, True), ("third", 0, 5, True)], "its page was still in the cache"
    init = step.schedule.new_rows[0]
    assert list(init.token_ids) == second.token_ids, "it comes back with its outputs"
    assert init.num_prompt_tokens == 16


def test_batch_is_preempted_before_interactive() -> None:
    owner = scheduler(layout=layout(4))
    batch = lined_up(owner, "batch", [1] * 32, max_tokens=40, request_class="batch")
    now = lined_up(owner, "now", [2] * 16, max_tokens=40)
    step = scheduled(owner)
    sampled(owner, step)
    assert work(scheduled(owner)) == [("now", 16, 1, True)]
    assert (batch.phase, now.phase) == (Phase.WAITING, Phase.RUNNING)


def test_a_preempted_requests_token_in_flight_still_counts() -> None:
    owner = scheduler(layout=layout(4))
    first = lined_up(owner, "first", [1] * 30, max_tokens=40)
    second = lined_up(owner, "second", [2] * 15, max_tokens=40)
    steps = [scheduled(owner), scheduled(owner)]
    sampled(owner, steps[0])
    steps.append(scheduled(owner))
    sampled(owner, steps[1])
    assert owner.kv.pool.num_free == 0
    assert owner.schedule(0.0) is None, (
        "the page for the first comes when the second's last step is collected"
    )
    assert (second.phase, second.num_unseen_tokens, first.phase) == (Phase.WAITING, 1, Phase.RUNNING)
    sampled(owner, steps[2])
    assert (len(second.token_ids), second.num_unseen_tokens) == (18, 0)
    assert work(scheduled(owner)) == [("first", 32, 1, True)]
    owner.check_integrity()


def test_who_waits_for_its_last_token_is_not_preempted_but_waited_for() -> None:
    owner = scheduler(layout=layout(4))
    lined_up(owner, "long", [1] * 30, max_tokens=40)
    done = lined_up(owner, "done", [2] * 15, max_tokens=3)
    steps = [scheduled(owner), scheduled(owner), scheduled(owner)]
    assert (done.num_pending, owner.kv.pool.num_free) == (0, 0)
    assert owner.schedule(0.0) is None, "its pages come with its last token"
    assert (done.phase, owner.num_preemptions) == (Phase.RUNNING, 0)
    for step in steps:
        sampled(owner, step)
    owner.check_integrity()


def test_only_uncached_input_is_charged_and_recomputing_is_free() -> None:
    owner = scheduler(layout=layout(4), max_num_batched_tokens=128)
    first = lined_up(owner, "first", [1] * 32, max_tokens=40, fairness_id="one")
    second = lined_up(owner, "second", [1] * 17, max_tokens=40, fairness_id="two")
    step = scheduled(owner)
    assert first.account is not None
    assert second.account is not None
    assert (first.account.served, second.account.served) == (32, 1)
    sampled(owner, step)
    owner._preempt(second)
    owner._preempt(first)
    sampled(owner, scheduled(owner))
    assert (first.account.served, second.account.served) == (32, 1)
    assert (owner.prefix_queries, owner.prefix_hits) == (49, 16)


def test_spoiled_pages_take_those_who_share_them_along() -> None:
    """b hits pages that a fills in the same step; when a's step fails, b starts over without its result."""
    owner = scheduler()
    a, b = lined_up(owner, "a", 40), lined_up(owner, "b", 40)
    bystander = lined_up(owner, "c", [9] * 10)
    step, later = scheduled(owner), scheduled(owner)
    owner.spoil([(a, 0)], [step, later])
    assert (b.phase, b.num_tokens) == (Phase.WAITING, 40)
    assert bystander.phase is Phase.RUNNING
    b_rows = {
        item.row for item, request in zip(step.schedule.work, step.requests, strict=True) if request is b
    }
    assert step.ignored_rows == later.ignored_rows == b_rows
    owner.finish(a)
    owner.retire(step)
    owner.retire(later)
    bystander.token_ids += [1, 1]
    again = scheduled(owner)
    assert ("b", 0, 40, True) in work(again), "nothing of the spoiled prefix is found"
    owner.check_integrity()


def test_spoiling_spreads_through_what_was_computed_on_it() -> None:
    """c shares a page of b that was computed on a's page."""
    owner = scheduler(layout=layout(64, windows=(16,)), max_num_batched_tokens=512)
    prompt = list(range(100, 180))
    a = lined_up(owner, "a", prompt[:40])
    b = lined_up(owner, "b", prompt[:64])
    c = lined_up(owner, "c", prompt)
    step = scheduled(owner)
    assert (b.num_cached_tokens, c.num_cached_tokens) == (32, 64)
    assert not set(a.tables[0]) & {page for page in c.tables[0] if page >= 0}
    owner.spoil([(a, 0)], [step])
    assert (b.phase, c.phase) == (Phase.WAITING, Phase.WAITING)


def test_check_integrity_sees_a_request_that_is_nowhere() -> None:
    owner = scheduler()
    request = lined_up(owner, "a", 5)
    owner.waiting.remove(request)
    with pytest.raises(AssertionError):
        owner.check_integrity()


def test_check_integrity_sees_a_lost_row() -> None:
    owner = scheduler()
    lined_up(owner, "a", 5)
    scheduled(owner)
    owner.rows.seats[0] = None
    with pytest.raises(AssertionError):
        owner.check_integrity()


def decode_only(schedules: list[ScheduleOutput]) -> list[ScheduleOutput]:
    return [schedule for schedule in schedules if all(item.num_tokens == 1 for item in schedule.work)]


def test_steady_decoding_sends_no_token_and_few_pages() -> None:
    engine = Engine(config(max_num_seqs=4))
    engine.runner.keeps_schedules = True
    engine.run(*(add(f"r{i}", [i] * (10 + i), max_tokens=64) for i in range(4)))
    steady = decode_only(engine.runner.schedules)
    assert len(steady) > 55
    assert all(schedule.new_rows == () for schedule in steady[:-4])
    assert sum(len(schedule.appends) for schedule in steady) == 4 * 4


def test_a_prompt_that_lost_its_row_in_the_step_is_not_topped_up() -> None:
    """It may be among those that left room for others, and be preempted for want of pages after that."""
    owner = scheduler(max_num_batched_tokens=64)
    prompt = lined_up(owner, "a", 150)
    scheduled(owner)
    plan = StepPlan(64, pace.Allowance(owner.times), unserved=[prompt])
    owner._preempt(prompt)
    owner._top_up(plan)
    assert plan.work == []
    assert plan.appends == []
    owner.check_integrity()
