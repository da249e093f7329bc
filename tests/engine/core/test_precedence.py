"""Classes, shares, turns, promises and passing over, as the scheduler carries them out."""

from __future__ import annotations

from engine.core.policy import PASSED_OVER_S
from engine.core.request import Phase
from engine.core.step import Step
from engine.core.turns import TURN_TOKENS
from tests.engine.core.harness import layout, plan_of
from tests.engine.core.test_scheduler import lined_up, sampled, scheduled, scheduler, work


def work_of(step: Step | None) -> list[tuple[str, int, int, bool]]:
    assert step is not None
    return work(step)


def test_who_does_not_fit_is_passed_over_for_a_while_and_then_waited_for() -> None:
    owner = scheduler(layout=layout(8))
    first = lined_up(owner, "a", [1] * 63, max_tokens=1)
    steps = [scheduled(owner)]
    second = lined_up(owner, "b", [2] * 64)
    lined_up(owner, "c", [3] * 5, max_tokens=1)
    steps.append(scheduled(owner))
    assert work(steps[1]) == [("c", 0, 5, True)]
    lined_up(owner, "d", [4] * 5, max_tokens=1)
    assert owner.schedule(PASSED_OVER_S) is None, "now every page that comes back is for the second"
    owner.finish(first)
    for step in steps:
        sampled(owner, step)
    assert ("b", 0, 64, True) in work(scheduled(owner, PASSED_OVER_S))
    assert (second.phase, second.blocked_s) == (Phase.RUNNING, None)


def test_a_request_that_is_waited_for_does_not_hold_up_ids_with_fewer_pages_than_its_own() -> None:
    owner = scheduler(layout=layout(8))
    lined_up(owner, "a", [1] * 63, max_tokens=1, fairness_id="large")
    scheduled(owner)
    lined_up(owner, "b", [2] * 64, fairness_id="large")
    assert owner.schedule(0.0) is None
    lined_up(owner, "c", [3] * 5, fairness_id="large")
    lined_up(owner, "d", [4] * 5, fairness_id="small")
    assert work_of(owner.schedule(PASSED_OVER_S)) == [("d", 0, 5, True)]


def test_an_id_holds_no_more_than_its_share_of_the_pages() -> None:
    owner = scheduler(layout=layout(16), max_num_batched_tokens=512)
    for id in "abcd":
        lined_up(owner, id, [ord(id)] * 30, fairness_id="capped", max_kv_fraction=0.44)
    lined_up(owner, "e", [9] * 30, fairness_id="free")
    assert sorted(item[0] for item in work(scheduled(owner))) == ["a", "b", "e"], (
        "two pages each, and room to grow"
    )
    assert owner.waiting.num_requests == 2


def test_who_grows_beyond_its_share_gives_up_its_own_least_work() -> None:
    owner = scheduler(layout=layout(16))
    first = lined_up(owner, "a", [1] * 31, fairness_id="capped", max_kv_fraction=0.25, max_tokens=60)
    step = scheduled(owner)
    sampled(owner, step)
    first.max_kv_fraction = 1.0
    second = lined_up(owner, "b", [2] * 15, fairness_id="capped", max_kv_fraction=0.25)
    other = lined_up(owner, "c", [3] * 5, fairness_id="other")
    second.holding.num_running -= 1  # type: ignore[union-attr]  # so that it slips in
    step = scheduled(owner)
    second.holding.num_running += 1  # type: ignore[union-attr]  # as above
    first.max_kv_fraction = 0.25
    assert second.phase is Phase.RUNNING
    for _ in range(30):
        sampled(owner, step)
        step = scheduled(owner)
        if second.phase is Phase.WAITING:
            break
    assert (second.phase, first.phase, other.phase) == (Phase.WAITING, Phase.RUNNING, Phase.RUNNING)


def test_prompts_of_several_ids_take_turns() -> None:
    """The long one of the first id has had its turn when the second id's arrives, which then goes before it."""
    owner = scheduler(
        layout=layout(2000), max_model_len=20_000, max_num_batched_tokens=512, max_num_mixed_tokens=None
    )
    lined_up(owner, "long", [1] * 16_000, fairness_id="one")
    for _ in range(TURN_TOKENS // 512):
        scheduled(owner)
    lined_up(owner, "short", [2] * 300, fairness_id="two")
    lined_up(owner, "same", [3] * 300, fairness_id="one")
    assert work(scheduled(owner)) == [("long", TURN_TOKENS, 512, False)], (
        "both begin the turn; who came first?"
    )
    for _ in range(TURN_TOKENS // 512 - 1):
        scheduled(owner)
    assert work(scheduled(owner)) == [("long", 2 * TURN_TOKENS, 212, False), ("short", 0, 300, True)]
    assert work(scheduled(owner))[1:] == [("long", 2 * TURN_TOKENS + 212, 511, False)]


def test_room_that_nobody_in_line_can_take_goes_to_the_prompts() -> None:
    owner = scheduler(
        layout=layout(1025), max_model_len=20_000, max_num_batched_tokens=512, max_num_mixed_tokens=None
    )
    long = lined_up(owner, "long", [1] * 16_000, fairness_id="one")
    scheduled(owner)
    large = lined_up(owner, "large", [2] * 1000, fairness_id="two")
    scheduled(owner)
    assert long.account is not None
    long.account.num_read += TURN_TOKENS
    steps = [scheduled(owner) for _ in range(2)]
    assert large.phase is Phase.WAITING, "it is its turn, but there are no pages for it"
    assert [work(step) for step in steps] == [[("long", 1024, 512, False)], [("long", 1536, 512, False)]]
    assert long.num_steps_in_flight == 4
    owner.check_integrity()


def test_the_lower_class_makes_way_for_the_upper_one() -> None:
    owner = scheduler(layout=layout(8), max_num_seqs=2)
    more = lined_up(owner, "more", [1] * 40, request_class="batch")
    less = lined_up(owner, "less", [2] * 30, request_class="batch")
    steps = [scheduled(owner)]
    now = lined_up(owner, "now", [3] * 30)
    steps.append(scheduled(owner, 1.0))
    assert work(steps[1]) == [("more", 40, 1, True), ("now", 0, 30, True)]
    assert (less.phase, less.row, steps[1].schedule.freed_rows) == (Phase.WAITING, 1, (1,))
    lined_up(owner, "large", [4] * 90)
    assert owner.schedule(1.0) is not None
    assert (more.phase, now.phase) == (Phase.RUNNING, Phase.RUNNING), "its pages would not be enough"
    owner.check_integrity()


def test_a_promised_time_between_tokens_caps_the_prompts_beside_it() -> None:
    owner = scheduler(layout=layout(200), max_num_batched_tokens=512, max_model_len=4000)
    lined_up(owner, "answer", [1] * 20, max_tokens=50, tpot_ms=30.0)
    step = scheduled(owner)
    for count in (1, 100, 200, 400, 512, 300, 50):
        plan = plan_of(512)
        plan.add(step.requests[0], 0, count, samples=False)
        owner.times.observe(Step.from_plan(1, plan, []), 0.010 + 0.0001 * count)
    sampled(owner, step)
    lined_up(owner, "prompt", [2] * 2000)
    owner.num_steps = 1
    cut = scheduled(owner)
    assert 150 < cut.num_tokens < 190, "10 ms, and 0.1 ms a token, make 28.5 ms"
    assert [item[0] for item in work(cut)] == ["answer", "prompt"]
