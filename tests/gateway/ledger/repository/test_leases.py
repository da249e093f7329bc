"""Leases in the database: drawn by sums, found when nobody can draw from them any more."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import text

from gateway.ids import RequestId
from gateway.ledger.repository.budgets import create_rows
from gateway.ledger.repository.holds import holds_of, insert_holds, orphaned_holds
from gateway.ledger.repository.instances import beat
from gateway.ledger.repository.leases import draw_leases, stale_leases
from gateway.ledger.types import BudgetKey, Hold, Take
from tests.gateway.books import Books
from tests.gateway.ledger.builders import reservation

KEYS = (BudgetKey("b1", "2026-11"), BudgetKey("b2", "prepaid"))


async def _lease(books: Books, name: str, run: str = "run_1", lasts_s: int = 600) -> None:
    takes = tuple(Take(*key, amount_nanousd=10) for key in KEYS)
    now = datetime.now(UTC)
    hold = Hold(reservation(name), 10, takes, now, now + timedelta(seconds=lasts_s), is_lease=True)
    async with books.database.transaction() as connection:
        await create_rows(connection, KEYS)
        await beat(connection, run, "gw-1")
        await insert_holds(connection, run, [hold], dict.fromkeys(KEYS, 10))


async def test_what_is_drawn_leaves_the_lease_and_its_rows(books: Books) -> None:
    await _lease(books, "lease_1")
    await _lease(books, "lease_2")
    drawn = {RequestId("lease_2"): 3, RequestId("lease_1"): 10, RequestId("lease_gone"): 5}
    async with books.database.transaction() as connection:
        await draw_leases(connection, drawn)
        left = await holds_of(connection, [RequestId("lease_1"), RequestId("lease_2")])
    assert [left[RequestId(name)].amount_nanousd for name in ("lease_1", "lease_2")] == [0, 7]
    assert left[RequestId("lease_2")].takes == tuple(Take(*key, amount_nanousd=7) for key in KEYS)
    for key in KEYS:
        assert await books.held_and_spent(key.budget_id) == (7, 0)


async def test_a_request_is_never_drawn_from(books: Books) -> None:
    await _lease(books, "req_1")
    await books.run("UPDATE hold SET is_lease = false")
    async with books.database.transaction() as connection:
        await draw_leases(connection, {RequestId("req_1"): 3})
    assert await books.held_and_spent("b1") == (10, 0)


async def test_leases_of_dead_runs_and_expired_ones_are_found_and_nobody_elses(books: Books) -> None:
    await _lease(books, "lease_mine")
    await _lease(books, "lease_earlier", run="run_0")
    await _lease(books, "lease_expired", run="run_2", lasts_s=-1)
    await books.run("UPDATE gateway_instance SET gateway_id = 'gw-2' WHERE instance_id = 'run_2'")
    async with books.database.transaction() as connection:
        expired = await stale_leases(connection, "run_1", "gw-1", of_earlier_runs=False)
        both = await stale_leases(connection, "run_1", "gw-1", of_earlier_runs=True)
        await connection.execute(text("UPDATE gateway_instance SET stopped_at = now()"))
        orphans = await orphaned_holds(connection, silent_s=30, limit=10)
    assert expired == ["lease_expired"]
    assert sorted(both) == ["lease_earlier", "lease_expired"]
    assert orphans == [], "a lease is no request: nothing is to be reconciled"
