"""The queries of the exports on a real ledger: one snapshot, order, and indexes rather than whole partitions."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, date, datetime, timedelta

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from gateway.db import Database
from gateway.exports.repository.events import FETCH_ROWS, closed_snapshot, event_rows, ledger_tally
from gateway.exports.types import CLOSING_LAG, Booking, ExportSpec, Period, Position
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


def _booked_on(at: datetime, recorded_at: datetime, booking: Booking) -> date:
    """The rule of types.py, said once more."""
    late = recorded_at - CLOSING_LAG
    if booking == "monthly":
        next_month = (at.replace(day=1) + timedelta(days=32)).replace(
            day=1, hour=0, minute=0, second=0, microsecond=0
        )
        late = min(late, next_month - timedelta(microseconds=1))
    return max(at, late).date()


async def test_days_divide_the_events_as_the_rule_says(database: Database, ledger: Ledger) -> None:
    """Five weeks over the end of a month, with events of every lateness, some of them to the microsecond."""
    seed = 11
    print("seed", seed)
    draw, first, count = random.Random(seed), datetime(2026, 1, 10, tzinfo=UTC), 400
    expected: dict[Booking, Counter[date]] = {"monthly": Counter(), "prompt": Counter()}
    for _ in range(count):
        at = first + timedelta(seconds=draw.randrange(30 * 86_400))
        late = draw.choice((timedelta(seconds=1), CLOSING_LAG, timedelta(hours=draw.randrange(1, 100))))
        if draw.random() < 0.3:  # booked at midnight, or a microsecond before it
            midnight = at.replace(hour=0, minute=0, second=0) + timedelta(days=1)
            late = midnight - at + CLOSING_LAG - timedelta(microseconds=draw.randrange(2))
        ledger.event(at, recorded_after=late)
        for booking in expected:
            expected[booking][_booked_on(at, at + late, booking)] += 1
    await ledger.write()
    found: dict[Booking, Counter[date]] = {"monthly": Counter(), "prompt": Counter()}
    async with database.transaction() as connection:
        for number in range(40):
            day = first.date() + timedelta(days=number)
            period = Period(day, day + timedelta(days=1))
            found["monthly"][day] = sum(
                [len(rows) async for rows in event_rows(connection, ExportSpec("csv", period), None)]
            )
            for booking, name in (("monthly", "csv"), ("prompt", "stripe")):
                tally = await ledger_tally(connection, ExportSpec(name, period))
                total = sum(sums["events"] for sums in tally.values())
                assert booking == "prompt" or total == found["monthly"][day]
                found[booking][day] = total
    assert found["monthly"].total() == found["prompt"].total() == count
    assert +found["monthly"] == expected["monthly"]
    assert +found["prompt"] == expected["prompt"]
    assert expected["monthly"] != expected["prompt"]
