"""Pages by id: shared ones once, and only for ids that somebody counts."""

from __future__ import annotations

import pytest

from engine.core.request import Request
from engine.core.shares import Holding, Holdings
from tests.engine.core.harness import Engine, add, config, layout


def request(id: str, **fields: object) -> Request:
    return Request.from_message(add(id, 20, **fields), sequence=0, now=0.0, eos_token_ids=())  # type: ignore[arg-type]


def test_a_page_of_several_requests_counts_once() -> None:
    holding = Holding("a")
    holding.take([1, 2, 3])
    holding.take([1, 2, 4])
    assert (holding.num_pages, holding.holds(2), holding.holds(5)) == (4, True, False)
    holding.drop([1, 2, 3])
    assert (holding.num_pages, holding.holds(1), holding.holds(3)) == (3, True, False)
    with pytest.raises(KeyError):
        holding.drop([3])


def test_a_page_given_back_makes_room_again() -> None:
    holding = Holding("a")
    holding.take([1])
    holding.is_full = True
    holding.drop([1])
    assert not holding.is_full


def test_nameless_requests_without_a_share_are_not_counted() -> None:
    holdings = Holdings()
    plain, named, capped = request("p"), request("n", fairness_id="n"), request("c", max_kv_fraction=0.5)
    for each in (plain, named, capped):
        holdings.open(each)
    assert plain.holding is None
    assert (len(holdings), holdings.num_capped) == (2, 1)
    holdings.check_integrity([plain, named, capped], [])
    for each in (plain, named, capped):
        holdings.close(each)
    assert (len(holdings), holdings.num_capped) == (0, 0)


def test_holdings_follow_the_tables_and_end_empty() -> None:
    engine = Engine(config(layout(40, windows=(None, 20)), max_num_batched_tokens=16))
    engine.submit(*(add(f"r{i}", 50, max_tokens=30, fairness_id=f"id{i % 2}") for i in range(6)))
    seen = 0
    for _ in range(60):
        engine.turn()
        for live in engine.loop._scheduler.running():
            assert live.holding is not None
            pages = {
                page
                for other in engine.loop._scheduler.running()
                if other.holding is live.holding
                for table in other.tables
                for page in table
                if page >= 0
            }
            assert live.holding.num_pages >= len(pages) > 0
            seen += 1
    assert seen > 50
    engine.run()
    assert len(engine.loop._scheduler.holdings) == 0


def test_check_integrity_sees_a_page_that_is_not_counted() -> None:
    holdings, holder = Holdings(), request("n", fairness_id="n")
    holdings.open(holder)
    assert holder.holding is not None
    holder.tables, holder.first_held = [[-1, 3, 4]], [1]
    holder.holding.take([3, 4])
    holdings.check_integrity([holder], [holder])
    holder.holding.drop([4])
    with pytest.raises(AssertionError, match="of id 'n'"):
        holdings.check_integrity([holder], [holder])
    holder.holding.take([4, 4])
    with pytest.raises(AssertionError, match="of id 'n'"):
        holdings.check_integrity([holder], [holder])
    with pytest.raises(AssertionError, match="of id 'n'"):
        holdings.check_integrity([holder], [])
