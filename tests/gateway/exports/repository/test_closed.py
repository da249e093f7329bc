"""When a day is closed: by the database's clock, and the last one of a month with its month."""

from __future__ import annotations

from datetime import date, timedelta

from gateway.db import Database
from gateway.exports.repository.closed import is_closed, recent_days
from gateway.exports.types import CLOSING_LAG, COMMIT_MARGIN, ExportSpec, FormatName, Period
from tests.gateway.exports.conftest import books, database, ledger
from tests.gateway.exports.ledger import DAY, Ledger

__all__ = ["books", "database", "ledger"]


async def _closed(database: Database, format: FormatName, start: date, end: date) -> bool:
    async with database.read() as session:
        return await is_closed(session, ExportSpec(format, Period(start, end)))


async def test_a_day_closes_after_the_lag(database: Database, ledger: Ledger) -> None:
    now = await ledger.books.value("SELECT now()")
    await ledger.close_months(until="now()")
    end = (now - CLOSING_LAG - COMMIT_MARGIN).date()
    assert await _closed(database, "stripe", end - timedelta(days=1), end)
    assert not await _closed(database, "stripe", end, end + timedelta(days=1))
    assert await _closed(database, "csv", end - timedelta(days=3), end)
    assert not await _closed(database, "csv", end, end + timedelta(days=1))


async def test_the_last_day_of_a_month_closes_with_its_month(database: Database, ledger: Ledger) -> None:
    """Once there are events; before the first one there is nothing that could change."""
    last, first = date(2026, 1, 31), date(2026, 2, 1)
    spans = ((last, first), (date(2026, 1, 1), first), (date(2026, 1, 20), date(2026, 2, 3)))
    assert [await _closed(database, "csv", *span) for span in spans] == [True] * 3
    ledger.event(DAY)
    await ledger.write()
    assert [await _closed(database, "csv", *span) for span in spans] == [False] * 3
    assert [await _closed(database, "stripe", *span) for span in spans] == [True] * 3
    assert await _closed(database, "csv", date(2026, 1, 29), last)
    await ledger.close_months(until="'2026-02-01Z'::timestamptz")
    assert [await _closed(database, "csv", *span) for span in spans] == [True] * 3
    assert not await _closed(database, "csv", date(2026, 1, 1), date(2026, 3, 1))


async def test_recent_days_begin_with_the_first_event(database: Database, ledger: Ledger) -> None:
    today = await ledger.books.value("SELECT (now() AT TIME ZONE 'UTC')::date")
    async with database.read() as session:
        assert await recent_days(session, 40) == (today, today - timedelta(days=1))
    ledger.event(await ledger.books.value("SELECT now() - interval '3 days'"))
    await ledger.write()
    async with database.read() as session:
        assert await recent_days(session, 40) == (today - timedelta(days=3), today - timedelta(days=1))
        assert (await recent_days(session, 2))[0] == today - timedelta(days=2)
