"""The second tier: what is reused is kept, what is kept for somebody stays, what failed is forgotten."""

from __future__ import annotations

from engine.core.contract import PageMove
from engine.core.host import HostTier
from engine.core.request import Phase
from tests.engine.core.harness import Engine, add, config, layout
from tests.engine.core.test_scheduler import lined_up, sampled, scheduled, scheduler


def moved(tier: HostTier) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    offloads, restores = tier.take_moves()
    return [(m.page, m.host_page) for m in offloads], [(m.page, m.host_page) for m in restores]


def test_a_page_that_is_reused_is_kept_once() -> None:
    tier = HostTier(2)
    for _ in range(2):
        tier.keep(7, "a")
    assert moved(tier) == ([(7, 0)], [])
    assert (tier.find("a"), tier.num_offloaded) == (0, 1)
    tier.check_integrity([])


def test_the_one_unused_for_longest_makes_room() -> None:
    tier = HostTier(2)
    for page, name in ((1, "a"), (2, "b"), (3, "a"), (4, "c")):
        tier.keep(page, name)
    assert (tier.contains("a"), tier.contains("b"), tier.contains("c")) == (True, False, True)


def test_what_is_stored_for_somebody_is_not_displaced() -> None:
    tier = HostTier(3)
    stored = tier.store([5, 6], ["a", None])
    assert stored == [0, 1]
    for page in range(3):
        tier.keep(page, f"other{page}")
    assert tier.contains("a")
    assert tier.store([8, 9], [None, None]) is None, "all or nothing"
    tier.check_integrity(stored)
    tier.drop(stored)
    assert tier.contains("a"), "still a hit until it is reused"
    tier.check_integrity([])


def test_what_will_be_restored_stays_until_the_schedule_is_made() -> None:
    tier = HostTier(1)
    tier.keep(4, "a")
    tier.hold([0])
    tier.keep(5, "b")
    tier.restore(0, 9)
    assert moved(tier) == ([(4, 0)], [(9, 0)])
    tier.keep(5, "b")
    assert moved(tier) == ([(5, 0)], [])


def test_no_memory_is_no_tier() -> None:
    tier = HostTier(0)
    tier.keep(1, "a")
    assert tier.store([1], ["a"]) is None
    assert moved(tier) == ([], [])


def test_a_preempted_request_comes_back_with_its_half_full_page() -> None:
    owner = scheduler(layout=layout(6, num_host_blocks=10), swaps=True)
    request = lined_up(owner, "a", [1] * 40, max_tokens=20)
    for _ in range(3):
        sampled(owner, scheduled(owner))
    owner._preempt(request)
    assert (request.phase, request.num_kept, len(request.kept[0])) == (Phase.WAITING, 42, 3)
    owner.check_integrity()
    (step,) = [scheduled(owner)]
    assert [move.page for move in step.schedule.offloads] == [0, 1, 2]
    assert len(step.schedule.restores) == 1, "full pages are still in the pool"
    assert [(item.start, item.num_tokens) for item in step.schedule.work] == [(42, 1)]
    assert (request.kept, owner.kv.host.pool.num_held) == ([], 0)


def test_without_room_on_the_host_it_is_computed_again() -> None:
    owner = scheduler(layout=layout(6, num_host_blocks=2), swaps=True)
    request = lined_up(owner, "a", [1] * 40, max_tokens=20)
    sampled(owner, scheduled(owner))
    owner._preempt(request)
    assert request.kept == []
    assert [(item.start, item.num_tokens) for item in scheduled(owner).schedule.work] == [(32, 9)]


def test_who_is_aborted_while_it_waits_gives_its_host_pages_back() -> None:
    owner = scheduler(layout=layout(6, num_host_blocks=10), swaps=True)
    request = lined_up(owner, "a", [1] * 40, max_tokens=20)
    sampled(owner, scheduled(owner))
    owner._preempt(request)
    owner.finish(request)
    assert owner.kv.host.pool.num_held == 0
    owner.check_integrity()


def test_different_salts_never_share_a_page_of_the_host() -> None:
    """Duty engine-3: a prompt found in the second tier is found by its own salt only."""
    engine = Engine(config(layout(8, num_host_blocks=40)))
    prompt = list(range(50))
    engine.run(add("first", prompt, cache_salt=b"one"))
    engine.run(add("flood", [7] * 100, cache_salt=b"one"))
    engine.run(add("other", prompt, cache_salt=b"two"))
    engine.run(add("flood2", [8] * 100, cache_salt=b"one"))
    engine.run(add("again", prompt, cache_salt=b"one"))
    cached = {id: answer.outputs[0].num_cached_tokens for id, answer in engine.answers.items()}
    assert (cached["first"], cached["other"], cached["again"]) == (0, 0, 48)
    assert engine.loop._scheduler.kv.host.num_restored == 3


def test_copies_of_a_failed_step_are_forgotten_on_both_sides() -> None:
    failing = [False]
    engine = Engine(config(layout(8, num_host_blocks=40)), fails_batch=lambda schedule: failing[0])
    prompt = list(range(50))
    engine.run(add("first", prompt))
    failing[0] = True
    engine.run(add("flood", [7] * 100))
    failing[0] = False
    engine.run(add("again", prompt))
    assert engine.answers["flood"].reason == "error"
    assert engine.answers["again"].reason == "length"
    engine.run(add("flood2", [8] * 100))
    failing[0] = True
    engine.run(add("restored", prompt))
    failing[0] = False
    engine.run(add("last", prompt))
    assert engine.answers["last"].tokens == engine.answers["first"].tokens
    engine.loop.check_integrity()


def test_who_shares_a_page_whose_copy_failed_starts_over() -> None:
    """The second finds in the pool what the step before was to bring back."""
    failures = [True]
    engine = Engine(
        config(layout(8, num_host_blocks=40)),
        fails_batch=lambda schedule: bool(schedule.restores and failures and failures.pop()),
    )
    prompt = list(range(50))
    engine.run(add("first", prompt), add("flood", [7] * 100))
    engine.submit(add("fails", prompt))
    engine.turn()
    engine.run(add("shares", [*prompt, 1, 2, 3]))
    assert [engine.answers[id].reason for id in ("fails", "shares")] == ["error", "length"]
    alone = Engine(config(layout(8)))
    alone.run(add("shares", [*prompt, 1, 2, 3]))
    assert engine.answers["shares"].tokens == alone.answers["shares"].tokens


def test_a_move_is_what_the_contract_says() -> None:
    assert PageMove(3, 4) == PageMove(page=3, host_page=4)
