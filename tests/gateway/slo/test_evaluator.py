"""The evaluator on a real database: states of every window, and the history of new promises."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from gateway.ledger.types import Timings
from gateway.slo.evaluator import Evaluator
from gateway.slo.repository.objectives import ObjectiveRepository
from tests.fakes.clock import ManualClock
from tests.gateway.books import Books, books
from tests.gateway.slo.test_matching import objective
from tests.gateway.usage_events import settled, write

__all__ = ["books"]

NOW = datetime(2026, 11, 20, 12, 30, 30, tzinfo=UTC)
AGES = {
    "5m": timedelta(minutes=3),
    "30m": timedelta(minutes=20),
    "1h": timedelta(minutes=50),
    "2h": timedelta(minutes=100),
    "6h": timedelta(hours=5),
    "1d": timedelta(hours=20),
    "3d": timedelta(hours=60),
    "30d": timedelta(days=25),
}


async def requests(books: Books) -> None:
    """One of each age, and one that no window holds any more."""
    ages = [*AGES.values(), timedelta(days=31)]
    asked: Any = {"is_stream": True}
    slow = Timings(ttft_ms=900, e2e_ms=9_000, tpot_us=20_000)
    await write(
        books.database, [settled(n, NOW - age, asked=asked, timings=slow) for n, age in enumerate(ages)]
    )


async def test_each_window_holds_what_happened_in_it(books: Books) -> None:
    await requests(books)
    states = await Evaluator(books.database, ManualClock(NOW)).run_once()
    found = {(one.series.tenant_id, one.series.sli): one for one in states}
    assert set(found) == {(who, sli) for who in ("proj_a", "*") for sli in ("availability", "ttft", "tpot")}
    for one in found.values():
        assert list(one.requests.values()) == list(range(1, 9))
    assert found["proj_a", "availability"].budget_left == 1
    assert round(found["proj_a", "ttft"].burn["5m"] or 0, 6) == 20
    rows = await books.rows("SELECT tenant_id, sli, good, total, burn FROM objective_state ORDER BY 1, 2")
    assert [(row[0], row[1], row[2], row[3]) for row in rows][3:] == [
        ("proj_a", "availability", 8, 8),
        ("proj_a", "tpot", 8, 8),
        ("proj_a", "ttft", 0, 8),
    ]
    assert rows[0].burn == dict.fromkeys(AGES, 0)


async def test_a_new_promise_is_judged_by_its_history_at_once(books: Books) -> None:
    await requests(books)
    clock = ManualClock(NOW)
    evaluator = Evaluator(books.database, clock)
    own = objective("own", tenant_id="proj_a", threshold_us=950_000, is_recounted=False)
    async with books.database.write() as session:
        assert await ObjectiveRepository().insert(session, own)
    found = {one.series.tenant_id: one for one in await evaluator.run_once() if one.series.sli == "ttft"}
    assert (found["proj_a"].objective.id, found["proj_a"].sums.good) == ("own", 8)
    assert (found["*"].objective.id, found["*"].sums.good) == ("objective_interactive_ttft", 0)
    assert await books.value("SELECT is_recounted FROM objective WHERE id = 'own'")


async def test_states_of_what_is_over_go(books: Books) -> None:
    await requests(books)
    clock = ManualClock(NOW)
    evaluator = Evaluator(books.database, clock)
    await evaluator.run_once()
    assert await books.count("objective_state") == 6
    clock.advance(40 * 86_400)
    assert await evaluator.run_once() == []
    assert await books.count("objective_state") == 0
