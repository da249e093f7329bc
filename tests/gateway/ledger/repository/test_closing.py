"""Closing a period and booking an old event exclude one another."""

import asyncio
from datetime import UTC, datetime

from gateway.ledger.repository.closing import close_period, closed_before, first_open_at
from tests.gateway.books import Books

AUGUST = (datetime(2026, 8, 1, tzinfo=UTC), datetime(2026, 9, 1, tzinfo=UTC))


async def test_no_period_closes_while_an_old_event_is_booked(books: Books) -> None:
    async def close() -> bool:
        async with books.database.transaction() as connection:
            return await close_period(connection, "2026-08", *AUGUST, wait_s=0)

    async with books.database.transaction() as connection:
        assert await closed_before(connection) is None
        closing = asyncio.create_task(close())
        done, _ = await asyncio.wait([closing], timeout=0.3)
        assert not done
    assert await closing
    async with books.database.transaction() as connection:
        assert await closed_before(connection) == AUGUST[1]
        assert await first_open_at(connection) == AUGUST[1]


async def test_a_period_closes_once_and_not_before_its_time(books: Books) -> None:
    async with books.database.transaction() as connection:
        assert await first_open_at(connection) is None
        assert not await close_period(connection, "2026-08", *AUGUST, wait_s=10**9)
        assert await close_period(connection, "2026-08", *AUGUST, wait_s=0)
        assert not await close_period(connection, "2026-08", *AUGUST, wait_s=0)
