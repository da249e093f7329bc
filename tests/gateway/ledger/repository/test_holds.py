"""Holds: written and read back whole, and orphaned by the database's clock only."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.exc import DBAPIError

from gateway.ids import RequestId
from gateway.ledger.decide import BudgetRow
from gateway.ledger.repository.budgets import BudgetLimit, create_rows
from gateway.ledger.repository.holds import (
    Taken,
    holds_of,
    insert_holds,
    orphaned_holds,
    take_all,
    take_if_room,
)
from gateway.ledger.repository.instances import beat
from gateway.ledger.types import BudgetKey, Hold, Take
from tests.gateway.books import Books
from tests.gateway.ledger.builders import reservation

TAKES = (Take("b1", "2026-11", 7), Take("b2", "prepaid", 7))


def hold(name: str = "req_1", expires_in_s: int = 600) -> Hold:
    asked = reservation(
        name,
        user_ref="u",
        is_stream=True,
        request_class="batch",
        client_retry_count=2,
        estimated_prompt_tokens=9,
        endpoint="completions",
    )
    now = datetime.now(UTC)
    return Hold(asked, 7, TAKES, now, now + timedelta(seconds=expires_in_s))


async def _insert(books: Books, *holds: Hold) -> None:
    async with books.database.transaction() as connection:
        await beat(connection, "run_1", "gw")
        await insert_holds(connection, "run_1", holds, {})


async def test_a_hold_comes_back_as_it_was_written(books: Books) -> None:
    written = hold()
    await _insert(books, written)
    async with books.database.transaction() as connection:
        assert await holds_of(connection, [RequestId("req_1"), RequestId("req_2")]) == {"req_1": written}


KEY = BudgetKey("b1", "2026-11")


async def _take_all(books: Books, names: list[str], limit: int | None, revision: int = 1) -> Taken:
    budget = BudgetLimit("b1", "tenant", "proj_a", None, "monthly", "UTC", limit or 0, limit is not None)
    holds = [replace(hold(name), takes=TAKES[:1]) for name in names]
    async with books.database.statement() as connection:
        return await take_all(connection, "run_1", holds, {KEY: 7 * len(names)}, {KEY: budget}, revision)


async def test_a_batch_that_fits_is_held_at_once_and_one_that_does_not_leaves_no_trace(books: Books) -> None:
    assert await _take_all(books, ["req_1"], 21) == Taken(False, {})  # the period has no row yet
    async with books.database.transaction() as connection:
        await create_rows(connection, [KEY])
    assert await _take_all(books, ["req_1"], 21, revision=0) == Taken(False, {})
    assert await books.count("hold") == 0
    assert (await _take_all(books, ["req_1", "req_2"], 21)).is_taken
    full = await _take_all(books, ["req_3", "req_4"], 21)
    assert full == Taken(False, {KEY: BudgetRow(KEY, "tenant", 21, True, 14, 0)})
    assert await books.count("hold") == 2
    assert await books.held_and_spent("b1") == (14, 0)
    assert (await _take_all(books, ["req_3"], 21)).is_taken
    assert (await _take_all(books, ["req_4"], None)).is_taken  # a soft budget has room for everything
    assert await books.held_and_spent("b1") == (28, 0)


async def test_batches_that_wait_for_a_row_see_what_it_has_become(books: Books) -> None:
    """Twenty batches at once on room for seven: seven are held, however long they waited for the row."""
    async with books.database.transaction() as connection:
        await create_rows(connection, [KEY])
    results = await asyncio.gather(*(_take_all(books, [f"req_{number}"], 50) for number in range(20)))
    assert [result.is_taken for result in results].count(True) == 7
    assert await books.held_and_spent("b1") == (49, 0)
    assert await books.count("hold") == 7


async def _take_if_room(books: Books, names: list[str], limit: int | None, revision: int = 1) -> bool:
    budget = BudgetLimit("b1", "tenant", "proj_a", None, "monthly", "UTC", limit or 0, limit is not None)
    holds = [replace(hold(name), takes=TAKES[:1]) for name in names]
    async with books.database.transaction() as connection:
        await connection.exec_driver_sql("SET LOCAL lock_timeout = 0")
        return await take_if_room(connection, "run_1", holds, {KEY: 7 * len(names)}, {KEY: budget}, revision)


async def test_the_short_way_takes_what_fits_and_writes_nothing_else(books: Books) -> None:
    assert not await _take_if_room(books, ["req_1"], 21)  # the period has no row yet
    async with books.database.transaction() as connection:
        await create_rows(connection, [KEY])
    assert not await _take_if_room(books, ["req_1"], 21, revision=0)
    assert await _take_if_room(books, ["req_1", "req_2"], 21)
    assert not await _take_if_room(books, ["req_3", "req_4"], 21)
    assert (await books.count("hold"), await books.held_and_spent("b1")) == (2, (14, 0))
    assert await _take_if_room(books, ["req_3"], 21)
    assert await _take_if_room(books, ["req_4"], None)  # a soft budget has room for everything
    assert (await books.count("hold"), await books.held_and_spent("b1")) == (4, (28, 0))


async def test_the_short_way_of_requests_without_budgets_only_writes_their_holds(books: Books) -> None:
    async with books.database.statement() as connection:
        assert await take_if_room(connection, "run_1", [hold()], {}, {}, 1)
    assert (await books.count("hold"), await books.count("budget_period")) == (1, 0)


async def test_the_short_way_is_undone_where_the_room_is_gone_by_its_turn(books: Books) -> None:
    """It looks and finds room for one, waits for the row, and by then somebody else has taken that."""
    async with books.database.transaction() as connection:
        await create_rows(connection, [KEY])
    async with books.database.transaction() as first:
        await first.exec_driver_sql("UPDATE budget_period SET spent_nanousd = 15")
        second = asyncio.create_task(_take_if_room(books, ["req_1"], 21))
        await books.until_waiting()
    with pytest.raises(DBAPIError, match="division by zero"):
        await second
    assert (await books.count("hold"), await books.held_and_spent("b1")) == (0, (0, 15))


async def test_many_short_ways_at_once_take_what_there_is(books: Books) -> None:
    async with books.database.transaction() as connection:
        await create_rows(connection, [KEY])
    ways = (_take_if_room(books, [f"req_{number}"], 50) for number in range(20))
    results = await asyncio.gather(*ways, return_exceptions=True)
    assert [result for result in results if result is True] == [True] * await books.count("hold")
    held = 7 * await books.count("hold")
    assert await books.held_and_spent("b1") == (held, 0)
    assert 7 <= held <= 49


@pytest.mark.parametrize(
    ("change", "is_orphaned"),
    [
        ("UPDATE gateway_instance SET heartbeat_at = now() - interval '10 seconds'", False),
        ("UPDATE gateway_instance SET heartbeat_at = now() - interval '40 seconds'", True),
        ("UPDATE gateway_instance SET stopped_at = now()", True),
        ("DELETE FROM gateway_instance", True),
        ("UPDATE hold SET expires_at = now() - interval '1 second'", True),
    ],
)
async def test_a_hold_is_orphaned_by_the_death_of_its_run_or_by_its_age(
    books: Books, change: str, is_orphaned: bool
) -> None:
    await _insert(books, hold())
    await books.run(change)
    async with books.database.transaction() as connection:
        assert len(await orphaned_holds(connection, silent_s=30, limit=10)) == is_orphaned
