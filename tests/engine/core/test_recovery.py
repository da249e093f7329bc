"""Spoiling spreads from page to page, and to nobody who holds none of them."""

from __future__ import annotations

from engine.core.recovery import spoil
from tests.engine.core.test_scheduler import lined_up, scheduled, scheduler


def test_who_holds_a_spoiled_page_starts_over_once() -> None:
    owner = scheduler(max_num_batched_tokens=512)
    a, b, c = lined_up(owner, "a", 40), lined_up(owner, "b", 40), lined_up(owner, "c", 60)
    alone = lined_up(owner, "d", [9] * 10)
    scheduled(owner)
    over: list[str] = []
    spoil([(a, 0)], [a, b, c, alone], owner.kv, lambda request: over.append(request.id))
    assert over == ["b", "c"]
    assert owner.kv.pool.find((0, a.page_digests[0])) is None


def test_positions_before_the_failure_stay() -> None:
    owner = scheduler(max_num_batched_tokens=512)
    a, b = lined_up(owner, "a", 40), lined_up(owner, "b", 40)
    scheduled(owner)
    over: list[str] = []
    spoil([(a, 32)], [a, b], owner.kv, lambda request: over.append(request.id))
    assert over == [], "they share the first two pages only"
    assert owner.kv.pool.find((0, a.page_digests[1])) is not None
