"""Budget rows: locked in key order whatever the order of the table, and only the limits that apply are found."""

import asyncio

import pytest
from sqlalchemy.exc import IntegrityError

from gateway.ledger.decide import Sums
from gateway.ledger.repository.budgets import apply_sums, create_rows, limits_of, lock_rows
from gateway.ledger.types import BudgetKey
from tests.gateway.books import Books

A, M, Z = (BudgetKey(name, "2026-11") for name in "amz")


@pytest.mark.parametrize("statement", ["lock_rows", "apply_sums"])
async def test_locks_are_taken_in_key_order(books: Books, statement: str) -> None:
    """The rows lie in the table as z, m, a. Whoever waits for `a` must not hold the rows after it yet."""
    for key in (Z, M, A):
        async with books.database.transaction() as connection:
            await create_rows(connection, [key])
    async with books.database.transaction() as first:
        await lock_rows(first, [A])

        async def lock_all() -> None:
            async with books.database.transaction() as second:
                if statement == "lock_rows":
                    await lock_rows(second, [Z, A, M])
                else:
                    await apply_sums(second, {key: Sums(0, 1) for key in (Z, A, M)})

        waiting = asyncio.create_task(lock_all())
        await _until_waiting(books)
        free = await first.exec_driver_sql(
            "SELECT budget_id FROM budget_period WHERE budget_id <> 'a' ORDER BY 1 FOR UPDATE SKIP LOCKED"
        )
        assert [row[0] for row in free] == ["m", "z"]
    await waiting


async def test_sums_meet_the_newest_version_of_a_row(books: Books) -> None:
    """Twenty at once on two rows, half of them naming the rows in the other order: nothing is lost."""
    async with books.database.transaction() as connection:
        await create_rows(connection, [A, Z])

    async def add(number: int) -> None:
        keys = (A, Z) if number % 2 else (Z, A)
        async with books.database.transaction() as connection:
            assert await apply_sums(connection, {key: Sums(-2, 1) for key in keys}) == set()

    await asyncio.gather(*(add(number) for number in range(20)))
    rows = await books.rows("SELECT held_nanousd, spent_nanousd FROM budget_period")
    assert [tuple(row) for row in rows] == [(40, 20), (40, 20)]
    async with books.database.transaction() as connection:
        assert await apply_sums(connection, {A: Sums(0, 1), M: Sums(0, 1)}) == {M}


async def test_only_limits_that_cover_the_request_are_found(books: Books) -> None:
    await books.add_tenant("proj_b")
    organisation = await books.add_budget(1, scope="organization", tenant_id=None)
    tenant = await books.add_budget(2)
    key = await books.add_budget(3, scope="key", key_id="key_a")
    await books.add_budget(4, tenant_id="proj_b")
    await books.add_budget(5, scope="key", key_id="key_b")
    async with books.database.transaction() as connection:
        limits = await limits_of(connection, ["proj_a"], ["key_a"])
    assert {limit.budget_id for limit in limits} == {organisation, tenant, key}
    assert all(limit.covers("proj_a", "key_a") for limit in limits)
    assert [limit.budget_id for limit in limits if limit.covers("proj_c", "key_a")] == [organisation]


async def test_held_can_never_go_below_zero(books: Books) -> None:
    async with books.database.transaction() as connection:
        await create_rows(connection, [A])
        with pytest.raises(IntegrityError, match="ck_budget_period_held_not_negative"):
            await apply_sums(connection, {A: Sums(held_nanousd=1, spent_nanousd=0)})
        await connection.rollback()


async def test_a_budget_in_an_unknown_zone_is_refused(books: Books) -> None:
    with pytest.raises(IntegrityError, match="unknown time zone Mars/Olympus"):
        await books.add_budget(1, zone="Mars/Olympus")
    await books.add_budget(1, zone="Asia/Kathmandu")


async def _until_waiting(books: Books) -> None:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    async with asyncio.timeout(20):
        while not await books.value(waiting):  # noqa: ASYNC110  (the condition is in the database)
            await asyncio.sleep(0.01)
