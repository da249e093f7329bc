"""The queries of the exports on a real ledger: one snapshot, order, and indexes rather than whole partitions."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from gateway.db import Database
from gateway.exports.repository.events import FETCH_ROWS, closed_snapshot, event_rows, ledger_tally
from gateway.exports.types import Position
from gateway.ledger.models import UsageEvent
from tests.gateway.exports.conftest import books, database, ledger
from tests.gateway.exports.ledger import DAY, Ledger, spec

__all__ = ["books", "database", "ledger"]


async def test_rows_after_a_position_are_the_rest(database: Database, ledger: Ledger) -> None:
    await ledger.fill()
    ledger.event(DAY - timedelta(hours=1), recorded_after=timedelta(hours=9))
    await ledger.write()
    async with database.transaction() as connection:
        await closed_snapshot(connection, spec())
        rows = [row async for batch in event_rows(connection, spec(), None) for row in batch]
        assert [row["occurred_at"] for row in rows] == sorted(row["occurred_at"] for row in rows)
        assert rows[0]["occurred_at"] < DAY
        for index in (0, 5, len(rows) - 1):
            after = Position(rows[index]["occurred_at"], str(rows[index]["event_id"]))
            rest = [row async for batch in event_rows(connection, spec(), after) for row in batch]
            assert [row["event_id"] for row in rest] == [row["event_id"] for row in rows[index + 1 :]]


async def test_a_snapshot_reads_only(database: Database, ledger: Ledger) -> None:
    await ledger.fill()
    async with database.transaction() as connection:
        await closed_snapshot(connection, spec())
        before = await ledger_tally(connection, spec())
        ledger.event(DAY + timedelta(hours=1))
        await ledger.write()
        assert await ledger_tally(connection, spec()) == before
        with pytest.raises(DBAPIError, match="read-only"):
            await connection.execute(text("DELETE FROM outbox"))
        await connection.rollback()


async def test_late_events_are_found_by_their_recording(ledger: Ledger) -> None:
    """Not by reading every older partition: the index on recorded_at exists in each of them."""
    found = await ledger.books.rows(
        "SELECT tablename FROM pg_indexes WHERE indexdef LIKE '%brin (recorded_at)%' AND tablename LIKE 'usage_event_20%'"
    )
    partitions = await ledger.books.rows(
        "SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r'"
    )
    assert {row[0] for row in found} == {row[0] for row in partitions}


async def test_rows_come_a_few_at_a_time(database: Database, ledger: Ledger) -> None:
    """However many there are: the cursor stays on the server."""
    ledger.event(DAY)
    await ledger.write()
    names = ", ".join(
        c.name for c in UsageEvent.__table__.columns if c.name not in ("event_id", "occurred_at")
    )
    await ledger.books.run(
        f"INSERT INTO usage_event (event_id, occurred_at, {names}) SELECT gen_random_uuid(),"
        f" occurred_at + n * interval '1 second', {names} FROM usage_event, generate_series(1, 12000) n"
    )
    async with database.transaction() as connection:
        await closed_snapshot(connection, spec())
        sizes = [len(rows) async for rows in event_rows(connection, spec(), None)]
    assert sizes == [FETCH_ROWS, FETCH_ROWS, 2_001]
