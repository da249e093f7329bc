"""Who gives way: the lower class where that is enough, an id beyond its share, and who may pass whom."""

from __future__ import annotations

from engine.core.policy import MOST_PREEMPTED
from engine.core.request import Request
from engine.core.scheduler import Scheduler
from engine.core.yielding import may_hold_room, may_pass, to_own_share, to_upper_class
from tests.engine.core.harness import layout
from tests.engine.core.test_scheduler import lined_up, scheduled, scheduler


def for_upper(owner: Scheduler, *, has_enough: bool = True) -> list[tuple[str, list[str]]]:
    found = to_upper_class(owner.rows, owner.waiting, owner.kv, [], has_enough=has_enough)
    return [(request.id, [victim.id for victim in victims]) for request, victims in found]


def batch(owner: Scheduler, id: str, prompt: int) -> Request:
    return lined_up(owner, id, [ord(id)] * prompt, request_class="batch")


def test_the_least_computed_give_way_and_no_more_than_needed() -> None:
    owner = scheduler(layout=layout(14), max_num_batched_tokens=512, max_num_seqs=3)
    for id, prompt in (("a", 60), ("b", 20), ("c", 40)):
        batch(owner, id, prompt)
    scheduled(owner)
    lined_up(owner, "x", [1] * 30)
    assert for_upper(owner) == [("x", ["b"])]
    lined_up(owner, "y", [2] * 40)
    assert for_upper(owner) == [("x", ["b"]), ("y", ["c"])]


def test_one_that_was_preempted_often_stays() -> None:
    """The one that came first of them; else a load that never ends would let none of them end."""
    owner = scheduler(layout=layout(14), max_num_batched_tokens=512, max_num_seqs=3)
    one, other, third = (batch(owner, id, 20) for id in "abc")
    scheduled(owner)
    lined_up(owner, "x", [1] * 30)
    lined_up(owner, "y", [2] * 30)
    assert for_upper(owner) == [("x", ["c"]), ("y", ["b"])]
    for request in (other, third):
        request.num_preempted = MOST_PREEMPTED
    assert for_upper(owner) == [("x", ["c"]), ("y", ["a"])]
    one.num_preempted = MOST_PREEMPTED
    assert for_upper(owner) == [("x", ["c"]), ("y", ["b"])]


def test_who_has_not_had_its_time_keeps_its_share_of_rows_and_pages() -> None:
    """Of 20 rows two, of 400 pages 40: the upper class is not kept waiting by more than that."""
    owner = scheduler(layout=layout(400), max_num_batched_tokens=512, max_num_seqs=20, max_model_len=8000)
    for id in "abc":
        batch(owner, id, 20)
    for number in range(17):
        lined_up(owner, f"upper{number}", [number] * 5)
    scheduled(owner)
    for id in "xyz":
        lined_up(owner, id, [ord(id)] * 5)
    assert for_upper(owner, has_enough=False) == [("x", ["c"])]
    assert for_upper(owner) == [("x", ["c"]), ("y", ["b"]), ("z", ["a"])]
    large = scheduler(layout=layout(400), max_num_batched_tokens=8000, max_num_seqs=20, max_model_len=8000)
    batch(large, "a", 2000)
    batch(large, "b", 600)
    scheduled(large)
    lined_up(large, "x", [1] * 5000)
    assert for_upper(large, has_enough=False) == [("x", ["b", "a"])]


def test_room_is_held_for_the_lower_class_only_within_its_share() -> None:
    owner = scheduler(layout=layout(100))
    upper, lower = lined_up(owner, "a", [1] * 20), batch(owner, "b", 20)
    upper.pages_wanted, lower.pages_wanted = 90, 10
    assert may_hold_room(upper, owner.kv)
    assert may_hold_room(lower, owner.kv)
    lower.pages_wanted = 11
    assert not may_hold_room(lower, owner.kv)


def test_nobody_gives_way_in_vain() -> None:
    owner = scheduler(layout=layout(14), max_num_batched_tokens=512)
    batch(owner, "a", 60)
    lined_up(owner, "upper", [1] * 100)
    scheduled(owner)
    lined_up(owner, "x", [2] * 100)
    assert for_upper(owner) == []


def test_who_fits_anyway_takes_nothing() -> None:
    owner = scheduler(layout=layout(40), max_num_batched_tokens=512)
    batch(owner, "a", 60)
    scheduled(owner)
    lined_up(owner, "x", [2] * 100)
    assert for_upper(owner) == []


def test_an_id_beyond_its_share_gives_up_one_at_a_time() -> None:
    owner = scheduler(layout=layout(20), max_num_batched_tokens=512)
    many = [
        lined_up(owner, id, [ord(id)] * size, fairness_id="f")
        for id, size in (("a", 40), ("b", 20), ("c", 30))
    ]
    other = lined_up(owner, "o", [1] * 50, fairness_id="o")
    scheduled(owner)
    for request in (*many, other):
        request.max_kv_fraction = 0.25
    assert to_own_share(owner.running(), owner.kv, []) == [many[1]]
    assert to_own_share(owner.running(), owner.kv, [many[2]]) == [], "pages are coming"
    for request in (*many, other):
        request.max_kv_fraction = 0.4
    assert to_own_share(owner.running(), owner.kv, []) == []


def test_who_holds_less_may_pass_who_holds_more() -> None:
    owner = scheduler(layout=layout(40), max_num_batched_tokens=512)
    lined_up(owner, "a", [1] * 60, fairness_id="large")
    scheduled(owner)
    awaited = lined_up(owner, "b", [2] * 60, fairness_id="large")
    same = lined_up(owner, "c", [3] * 5, fairness_id="large")
    little, much = (
        lined_up(owner, "d", [4] * 5, fairness_id="d"),
        lined_up(owner, "e", [5] * 90, fairness_id="e"),
    )
    nameless = lined_up(owner, "f", [6] * 5)
    found = [may_pass(request, awaited, owner.kv) for request in (same, little, much, nameless)]
    assert found == [False, True, False, False]
