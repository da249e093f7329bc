"""Block tables: what a request holds at admission, as it grows, behind its window and after its end."""

from __future__ import annotations

from itertools import product

import pytest

from engine.core.kv import KVManager
from engine.core.request import Request
from engine.core.shares import Holdings
from engine.messages import AddRequest
from tests.engine.core.harness import add, config, layout


def manager(num_blocks: int = 64, windows: tuple[int | None, ...] = (None,), **changes: object) -> KVManager:
    return KVManager(config(layout(num_blocks, windows=windows), **changes))


def request(message: AddRequest) -> Request:
    return Request.from_message(message, sequence=0, now=0.0, eos_token_ids=(0,))


def compute(kv: KVManager, each: Request, end: int) -> None:
    """As the scheduler does it: pages, then progress, then names."""
    kv.grow(each, end, whole=end)
    each.num_computed = end
    kv.publish(each)


def admitted(kv: KVManager, message: AddRequest) -> Request:
    each = request(message)
    kv.admit(each, kv.match(each))
    return each


def computed(kv: KVManager, message: AddRequest) -> Request:
    each = admitted(kv, message)
    compute(kv, each, each.num_tokens)
    return each


def test_a_second_request_hits_the_first_ones_pages_while_they_are_held() -> None:
    kv = manager()
    first = computed(kv, add("a", 40))
    second = request(add("b", 40))
    hit = kv.match(second)
    assert hit.num_tokens == 32
    assert hit.tables[0] == first.tables[0][:2]
    kv.admit(second, hit)
    assert (second.num_computed, second.capacity) == (32, 32)
    kv.check_integrity([first, second])


def test_a_full_hit_leaves_a_token_to_compute() -> None:
    kv = manager()
    computed(kv, add("a", 48))
    assert kv.match(request(add("b", 48))).num_tokens == 32
    assert kv.match(request(add("c", 49))).num_tokens == 48


def test_released_pages_are_still_hits() -> None:
    kv = manager()
    kv.release(computed(kv, add("a", 64)))
    assert kv.pool.num_held == 0
    assert kv.match(request(add("b", 65))).num_tokens == 64
    kv.check_integrity([])


def test_the_tail_is_reused_first() -> None:
    kv = manager(num_blocks=4)
    kv.release(computed(kv, add("a", 64)))
    other = admitted(kv, add("other", list(range(900, 920)), cache_salt=b"x"))
    kv.grow(other, 20)
    assert kv.match(request(add("b", 64))).num_tokens == 32


def test_other_salts_find_nothing() -> None:
    kv = manager()
    kv.release(computed(kv, add("a", 64, cache_salt=b"one")))
    assert kv.match(request(add("b", 64, cache_salt=b"two"))).num_tokens == 0
    assert kv.match(request(add("c", 64))).num_tokens == 0
    assert kv.match(request(add("d", 64, cache_salt=b"one"))).num_tokens == 48


def test_answers_are_found_by_the_next_turn() -> None:
    kv = manager()
    first = admitted(kv, add("a", 20))
    first.token_ids += range(500, 530)
    first.num_tokens = 50
    compute(kv, first, 50)
    kv.release(first)
    assert kv.match(request(add("b", [*first.token_ids, 7, 7, 7]))).num_tokens == 48


def test_without_prefix_caching_nothing_is_found() -> None:
    kv = manager(enable_prefix_caching=False)
    kv.release(computed(kv, add("a", 64)))
    assert kv.match(request(add("b", 64))).num_tokens == 0


def test_unseen_tokens_keep_a_page_from_being_named() -> None:
    kv = manager()
    each = admitted(kv, add("a", 14))
    each.num_tokens = 17
    compute(kv, each, 16)
    assert each.num_published == 0, "the host has not seen the page's last two tokens"
    each.token_ids += [5, 6]
    kv.publish(each)
    assert each.num_published == 1


def test_grow_reports_what_it_added_per_group() -> None:
    kv = manager(windows=(None, 20))
    each = admitted(kv, add("a", 100))
    each.row = 3
    appends = kv.grow(each, 32, whole=100)
    assert [(append.row, append.group, len(append.block_ids)) for append in appends] == [(3, 0, 7), (3, 1, 2)]
    assert each.capacity == 32
    assert kv.num_missing(each, 48) == 1
    assert kv.grow(each, 30) == []


def test_pages_behind_the_window_go_back_exactly_when_no_query_sees_them() -> None:
    kv = manager(windows=(None, 20))
    each = computed(kv, add("a", 100))
    sliding = list(each.tables[1])
    kv.release_behind(each, 34)
    assert each.tables[1] == sliding, "a query at 34 sees position 15"
    assert each.release_at == 35
    kv.release_behind(each, 35)
    assert each.tables[1] == [-1, *sliding[1:]]
    assert each.first_held == [0, 1]
    kv.release_behind(each, 100)
    assert each.tables[1][:5] == [-1] * 5
    assert len(each.tables[0]) == 7
    kv.check_integrity([each])
    kv.release(each)
    kv.check_integrity([])


def test_a_hit_takes_only_the_visible_pages_of_a_sliding_group() -> None:
    kv = manager(windows=(None, 20))
    kv.release(computed(kv, add("a", 100)))
    second = admitted(kv, add("b", 100))
    assert second.num_computed == 96
    assert second.tables[1][:4] == [-1] * 4
    assert second.first_held == [0, 4]
    assert kv.pool.num_held == 6 + 2
    kv.check_integrity([second])


def test_wanted_pages_count_hits_in_the_free_list_but_not_those_held() -> None:
    kv = manager()
    first = computed(kv, add("a", 64))
    second = request(add("b", 64))
    assert kv.num_free_wanted(second, kv.match(second)) == 1
    kv.release(first)
    assert kv.num_free_wanted(second, kv.match(second)) == 4


@pytest.mark.parametrize("windows", [(None,), (20,), (None, 20), (None, 5, 100)])
def test_peak_pages_is_enough_for_two_steps_in_flight(windows: tuple[int | None, ...]) -> None:
    """The largest chunks, back to back, freed as late as the loop does it; from everywhere in a page."""
    kv = manager(num_blocks=400, windows=windows, max_num_batched_tokens=64)
    for number, (length, first) in enumerate(product((1, 16, 63, 200, 500), (1, 2, 15, 64))):
        each = admitted(kv, add("a", length, cache_salt=number.to_bytes(2, "big")))
        most, ends = 0, [min(length, end) for end in range(first, length + 64, 64)]
        for step, end in enumerate(ends):
            compute(kv, each, end)
            most = max(most, kv.pool.num_held)
            if step >= 1:
                kv.release_behind(each, ends[step - 1])
        assert most <= kv.peak_pages(length)
        kv.release(each)


def test_spoiled_pages_are_not_found_again() -> None:
    kv = manager(windows=(None, 40))
    each = computed(kv, add("a", 80))
    spoiled = kv.spoil(each, 40)
    assert spoiled == {*each.tables[0][2:], *each.tables[1][2:]}
    assert kv.match(request(add("b", 80))).num_tokens == 32
    assert kv.first_of(each, spoiled) == 32
    assert kv.first_of(each, {9999}) is None
    kv.check_integrity([each])


def test_exclusive_pages_are_those_nobody_else_holds() -> None:
    kv = manager()
    first = computed(kv, add("a", 64))
    second = computed(kv, add("b", 64))
    assert kv.num_exclusive([first]) == 1
    assert kv.num_exclusive([first, second]) == 5


def test_waste_is_the_empty_share_of_the_tails() -> None:
    kv = manager()
    assert kv.waste([]) == 0.0
    each = computed(kv, add("a", 40))
    assert kv.waste([each]) == 8 / 48
    assert kv.usage() == 3 / 64


def test_pages_of_a_step_in_flight_cannot_be_released() -> None:
    kv = manager()
    each = computed(kv, add("a", 20))
    each.num_steps_in_flight = 1
    with pytest.raises(AssertionError, match="may still touch"):
        kv.release(each)


def test_check_integrity_sees_a_lost_request() -> None:
    kv = manager()
    computed(kv, add("a", 20))
    with pytest.raises(AssertionError, match="differ"):
        kv.check_integrity([])


def test_a_share_is_exceeded_by_what_is_new_and_a_page_for_each_that_runs() -> None:
    kv, holdings = manager(num_blocks=20), Holdings()

    def asking(length: int, **fields: object) -> Request:
        each = request(add("a", length, fairness_id="id", max_kv_fraction=0.5, **fields))
        holdings.open(each)
        return each

    first = asking(64)
    assert first.holding is not None
    assert not kv.exceeds_share(first, kv.match(first))
    kv.admit(first, kv.match(first))
    compute(kv, first, 64)
    assert first.holding.num_pages == 4
    larger = asking(1000, cache_salt=b"x")
    assert not kv.exceeds_share(larger, kv.match(larger)), "nothing of its id runs"
    first.holding.num_running = 1
    for length, exceeds in ((80, False), (81, True)):
        other = asking(length, cache_salt=b"x")
        assert kv.exceeds_share(other, kv.match(other)) == exceeds, (
            "ten pages: four, these, and one to grow by"
        )
    shared = asking(128)
    assert kv.match(shared).num_tokens == 64
    assert not kv.exceeds_share(shared, kv.match(shared)), "what the id holds already is not new"
    first.holding.num_running = 3
    assert kv.exceeds_share(shared, kv.match(shared))


def test_a_page_that_a_known_token_will_fill_is_no_waste() -> None:
    kv = manager()
    each = admitted(kv, add("a", 40))
    kv.grow(each, 16, whole=40)
    each.num_computed = 16
    assert kv.waste([each]) == pytest.approx(8 / 48)
