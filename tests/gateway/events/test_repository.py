"""The one door of events: written with their cause or not at all, and once, whoever says them how often."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from gateway.db import Database
from gateway.events import Event, EventType, Mail, announce
from tests.gateway.books import Books, books

__all__ = ["books"]

AT = datetime(2026, 11, 30, 1, 2, 3, 456789, tzinfo=UTC)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    found = Database(database_url, name="test-events", pool_size=4)
    yield found
    await found.close()


def event(key: str, kind: EventType = "budget.exhausted", tenant: str | None = "proj_a") -> Event:
    return Event(kind, tenant, key, {"spent_nanousd": 2**60 + 1, "n": key}, AT)


async def test_an_event_and_its_outbox_row(books: Books, database: Database) -> None:
    told = Event("ledger.drift", None, "2026-11-30", {"nanousd": 2**60 + 1}, AT, Mail(("a@x.org",), "[x]"))
    async with database.write() as session:
        assert await announce(session, [told]) == {told.id}
    [row] = await books.rows("SELECT id, type, tenant_id, payload, occurred_at FROM alert_record")
    assert tuple(row) == (told.id, "ledger.drift", None, {"nanousd": 2**60 + 1}, AT)
    [row] = await books.rows("SELECT topic, tenant_id, payload FROM outbox")
    mail = {"recipients": ["a@x.org"], "subject_prefix": "[x]"}
    assert tuple(row) == ("alert", None, {"record_id": told.id, "mail": mail})


async def test_it_is_announced_once(books: Books, database: Database) -> None:
    first, second, third = (event(key) for key in ("1", "2", "3"))
    async with database.transaction() as connection:
        assert await announce(connection, []) == frozenset()
        assert await announce(connection, [first, first]) == {first.id}
    async with database.transaction() as connection:
        assert await announce(connection, [third, first, second]) == {second.id, third.id}
        assert await announce(connection, [event("1", tenant="proj_b")]) != frozenset()
    assert await books.count("alert_record") == await books.count("outbox") == 4


async def test_it_goes_with_its_cause(books: Books, database: Database) -> None:
    async def fail() -> None:
        async with database.transaction() as connection:
            assert await announce(connection, [event("1")])
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    assert await books.count("alert_record") == await books.count("outbox") == 0


async def test_several_workers_that_see_the_same(books: Books, database: Database) -> None:
    """In different orders: they wait for each other instead of dying of a deadlock, and one of them is told."""
    events = [event(str(number)) for number in range(50)]

    async def tell(step: int) -> int:
        async with database.transaction() as connection:
            return len(await announce(connection, events[::step]))

    assert sum(await asyncio.gather(*(tell(step) for step in (1, -1, 1, -1)))) == 50
    assert await books.count("outbox") == 50
