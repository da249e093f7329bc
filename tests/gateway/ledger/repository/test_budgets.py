"""Budget rows: locked in key order whatever the order of the table, and only the limits that apply are found."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from uuid import UUID

import pytest
from sqlalchemy.exc import IntegrityError

from gateway.db import WriteConnection
from gateway.ledger.pricing import charge
from gateway.ledger.repository.budgets import BudgetLimit, create_rows, limits_of, lock_rows, spend
from gateway.ledger.repository.holds import take_all, take_if_room
from gateway.ledger.repository.settling import event_row, settle_all
from gateway.ledger.types import BudgetKey, Hold, Take
from tests.gateway.books import Books
from tests.gateway.ledger.builders import PRICES, reservation, settlement

Statement = Callable[[WriteConnection], Awaitable[object]]
A, M, Z = (BudgetKey(name, "2026-11") for name in "amz")


LIMITS = {
    key: BudgetLimit(key.budget_id, "tenant", "proj_a", None, "monthly", "UTC", 9, True) for key in (Z, A, M)
}


async def _take(connection: WriteConnection) -> object:
    return await take_all(connection, "run", [], dict.fromkeys((Z, A, M), 1), LIMITS, 1)


async def _take_if_room(connection: WriteConnection) -> object:
    now = datetime(2026, 11, 29, tzinfo=UTC)
    hold = Hold(reservation("req_2"), 1, (), now, now)
    return await take_if_room(connection, "run", [hold], dict.fromkeys((Z, A, M), 1), LIMITS, 1)


async def _settle(connection: WriteConnection) -> object:
    now = datetime(2026, 11, 29, tzinfo=UTC)
    takes = tuple(Take(*key, amount_nanousd=1) for key in (Z, A, M))
    hold = Hold(reservation("req_1"), 1, takes, now, now)
    event = event_row(settlement(hold, now), UUID(int=1), charge(PRICES, ()), 0, None)
    return await settle_all(connection, [event], [], {hold.request_id: takes})


@pytest.mark.parametrize(
    "statement",
    [
        lambda connection: lock_rows(connection, [Z, A, M]),
        lambda connection: spend(connection, dict.fromkeys((Z, A, M), 1)),
        _take,
        _take_if_room,
        _settle,
    ],
    ids=["lock_rows", "spend", "take_all", "take_if_room", "settle_all"],
)
async def test_locks_are_taken_in_key_order(books: Books, statement: Statement) -> None:
    """The rows lie in the table as z, m, a. Whoever waits for `a` must not hold the rows after it yet."""
    for key in (Z, M, A):
        async with books.database.transaction() as connection:
            await create_rows(connection, [key])
    async with books.database.transaction() as first:
        await lock_rows(first, [A])

        async def lock_all() -> None:
            async with books.database.transaction() as second:
                await statement(second)

        waiting = asyncio.create_task(lock_all())
        await books.until_waiting()
        free = await first.exec_driver_sql(
            "SELECT budget_id FROM budget_period WHERE budget_id <> 'a' ORDER BY 1 FOR UPDATE SKIP LOCKED"
        )
        assert [row[0] for row in free] == ["m", "z"]
    await waiting


async def test_spending_meets_the_newest_version_of_a_row_and_makes_a_missing_one(books: Books) -> None:
    """Twenty at once on two rows, half of them naming the rows in the other order: nothing is lost."""

    async def add(number: int) -> None:
        keys = (A, Z) if number % 2 else (Z, A)
        async with books.database.transaction() as connection:
            await spend(connection, dict.fromkeys(keys, -2))

    await asyncio.gather(*(add(number) for number in range(20)))
    rows = await books.rows("SELECT held_nanousd, spent_nanousd FROM budget_period")
    assert [tuple(row) for row in rows] == [(0, -40), (0, -40)]


async def test_only_limits_that_cover_the_request_are_found(books: Books) -> None:
    await books.add_tenant("proj_b")
    organisation = await books.add_budget(1, scope="organization", tenant_id=None)
    tenant = await books.add_budget(2)
    key = await books.add_budget(3, scope="key", key_id="key_a")
    await books.add_budget(4, tenant_id="proj_b")
    await books.add_budget(5, scope="key", key_id="key_b")
    async with books.database.transaction() as connection:
        limits = await limits_of(connection, ["proj_a"], ["key_a"])
    assert {limit.budget_id for limit in limits.all} == {organisation, tenant, key}
    assert limits.on("proj_a", "key_a") == limits.all
    assert [limit.budget_id for limit in limits.on("proj_c", "key_a")] == [organisation]
    assert limits.revision == await books.value("SELECT revision FROM config_revision WHERE topic = 'budget'")


async def test_held_can_never_go_below_zero(books: Books) -> None:
    async with books.database.transaction() as connection:
        await create_rows(connection, [A])
    with pytest.raises(IntegrityError, match="ck_budget_period_held_not_negative"):
        await books.run("UPDATE budget_period SET held_nanousd = held_nanousd - 1")


async def test_a_budget_in_an_unknown_zone_is_refused(books: Books) -> None:
    with pytest.raises(IntegrityError, match="unknown time zone Mars/Olympus"):
        await books.add_budget(1, zone="Mars/Olympus")
    await books.add_budget(1, zone="Asia/Kathmandu")
