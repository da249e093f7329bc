"""Budgets as rows: one per scope and period, and what a new one takes over from the running period."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from gateway.db import ReadSession
from gateway.ids import IdSource
from gateway.ledger.batcher import commit_batch
from gateway.ledger.repository.budget_views import BudgetRepository, BudgetView
from gateway.ledger.repository.rollups import fold_usage
from gateway.ledger.settling import Operation, SettleBatch
from gateway.ledger.types import Hold
from tests.gateway.books import Books, MakeLedger, books, make_ledger
from tests.gateway.ledger.builders import reservation, settlement

__all__ = ["books", "make_ledger"]

NOW = datetime.now(UTC).replace(day=20, hour=12)
MONTH = NOW.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
COST = 10 * 100 + 5 * 400
BOUND = 50_000


def budget(budget_id: str = "b1", **changes: Any) -> BudgetView:
    fields: dict[str, Any] = {
        "id": budget_id,
        "scope": "tenant",
        "tenant_id": "proj_a",
        "key_id": None,
        "period": "monthly",
        "zone": "UTC",
        "limit_nanousd": 10**9,
        "is_hard": True,
        "created_at": NOW,
    }
    return BudgetView(**(fields | changes))


async def settle(books: Books, name: str, at: datetime, **who: str) -> None:
    batch = SettleBatch(IdSource())
    hold = Hold(reservation(name, **who), BOUND, (), at, at)
    operations = [Operation(settlement=settlement(hold, at))]
    await batch.prepare(books.database, operations)
    assert await commit_batch(books.database, operations, batch.apply) == ["settled"]


async def make(books: Books, view: BudgetView, now: datetime = NOW) -> tuple[int, int]:
    """The (held, spent) that the budget begins with."""
    repository = BudgetRepository()
    async with books.database.write() as session:
        assert await repository.insert(session, view)
        await repository.take_over(session, view, now)
        counts = await repository.counts(session, [view.key_at(now)])
    begun = counts.get(view.key_at(now))
    return (begun.held_nanousd, begun.spent_nanousd) if begun is not None else (0, 0)


async def test_one_budget_per_scope_and_period(books: Books) -> None:
    repository = BudgetRepository()
    async with books.database.write() as session:
        assert await repository.insert(session, budget())
        assert not await repository.insert(session, budget("b2", limit_nanousd=5))
        assert await repository.insert(session, budget("b3", period="daily"))
        assert await repository.insert(session, budget("b4", scope="organization", tenant_id=None))
        await repository.update(session, "b1", 7, False)
        changed = await repository.locked(session, "b1")
        assert changed == budget(limit_nanousd=7, is_hard=False)
        assert await repository.of_scope(session, "proj_a", None, "monthly") == changed
        assert await repository.of_scope(session, None, None, "daily") is None
        await repository.delete(session, "b3")
    async with books.database.read() as session:
        assert [row.id for row in await repository.page(session, None, None, None, 9)] == ["b4", "b1"]
        assert [row.id for row in await repository.page(session, None, None, "b4", 9)] == ["b1"]
        assert [row.id for row in await repository.page(session, None, "organization", None, 9)] == ["b4"]
        assert [row.id for row in await repository.page(session, "proj_a", None, None, 9)] == ["b1"]
        assert await repository.budget(session, "b3") is None
        assert await repository.periods(session, "b1", None, 9) == []


async def test_a_budget_made_in_mid_period_counts_what_was_spent_before(books: Books) -> None:
    """From rollups and outbox alike, from the period's first instant on, of its own scope alone."""
    await books.add_tenant("proj_b")
    await settle(books, "before", MONTH - timedelta(microseconds=1))
    await settle(books, "first", MONTH)
    async with books.database.transaction() as connection:
        assert await fold_usage(connection, 10) == 2
    await settle(books, "second", NOW, key_id="key_z")
    await settle(books, "other", NOW, tenant_id="proj_b")
    assert await make(books, budget()) == (0, 2 * COST)
    assert await make(books, budget("b2", scope="key", key_id="key_z")) == (0, COST)
    assert await make(books, budget("b3", scope="organization", tenant_id=None)) == (0, 3 * COST)
    assert await make(books, budget("b4", period="prepaid")) == (0, 0), "paid-in money is not spent yet"
    assert await make(books, budget("b5", period="daily")) == (0, COST)


async def test_a_zone_whose_midnight_is_no_full_hour(books: Books) -> None:
    """A day of Kathmandu (UTC+5:45) begins at 18:15 of the day before."""
    midnight = datetime(NOW.year, NOW.month, 19, 18, 15, tzinfo=UTC)
    for number, at in enumerate((midnight - timedelta(minutes=1), midnight, midnight + timedelta(hours=3))):
        await settle(books, f"r{number}", at)
    async with books.database.transaction() as connection:
        await fold_usage(connection, 10)
    assert await make(books, budget(period="daily", zone="Asia/Kathmandu")) == (0, 2 * COST)


async def test_requests_in_flight_are_held_and_charged_under_the_new_budget(
    books: Books, make_ledger: MakeLedger
) -> None:
    ledger = await make_ledger()
    hold = await ledger.reserve(reservation("req_1"))
    other = await ledger.reserve(reservation("req_2", key_id="key_b"))
    now = hold.reserved_at
    assert await make(books, budget("budget_1", scope="key", key_id="key_a"), now) == (BOUND, 0)
    ledger.settle(settlement(hold, now))
    ledger.settle(settlement(other, now))
    await ledger.drain()
    async with books.database.read() as session:
        [counts] = await BudgetRepository().periods(ReadSession(session), "budget_1", None, 9)
    assert (counts.held_nanousd, counts.spent_nanousd) == (0, COST)
