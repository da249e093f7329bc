"""Deliveries: one per record, channel and target, and due by the database's clock. The rest is test_courier.py's."""

from __future__ import annotations

from dataclasses import replace

from gateway.alerts.repository.deliveries import NewDelivery, Wanted, add, lease, mark_failed, take_announced
from gateway.events import Mail, announce
from tests.gateway.alerts.repository.test_records import EVENT, record_of
from tests.gateway.books import Books, books

__all__ = ["books"]

ALL = Wanted("email", 9, 60.0, 9, [], ["email"])


async def test_an_announced_record_is_taken_once_with_its_mail(books: Books) -> None:
    event = replace(EVENT, mail=Mail(("a@x.org",), "[x]"))
    told = record_of(event)
    async with books.database.transaction() as connection:
        await announce(connection, [event])
    async with books.database.transaction() as first, books.database.transaction() as second:
        assert await take_announced(first, 9) == [told]
        assert await take_announced(second, 9) == [], "another worker has it"
        await first.rollback()
    async with books.database.transaction() as connection:
        assert await take_announced(connection, 9) == [told], "its worker died: it is still announced"


async def test_a_target_is_addressed_once(books: Books) -> None:
    async with books.database.transaction() as connection:
        await announce(connection, [EVENT])
        for name in ("d1", "d2"):
            await add(connection, [NewDelivery(name, EVENT.id, "email", "a@x.org", {})])
        [message] = await lease(connection, ALL)
        assert (message.id, message.attempt, message.record) == ("d1", 1, record_of(EVENT))
        assert await lease(connection, ALL) == []
        await mark_failed(connection, message, "busy", 0.0)
    async with books.database.transaction() as connection:
        [again] = await lease(connection, ALL)
        assert again.attempt == 2
        await mark_failed(connection, message, "an older attempt", None)
    assert await books.value("SELECT last_error FROM delivery") == "busy"


async def test_a_busy_target_is_left_alone(books: Books) -> None:
    async with books.database.transaction() as connection:
        await announce(connection, [EVENT])
        await add(connection, [NewDelivery("d1", EVENT.id, "email", "a@x.org", {})])
        await add(connection, [NewDelivery("d2", EVENT.id, "email", "b@x.org", {})])
        free = await lease(connection, replace(ALL, busy=["a@x.org"]))
        assert [one.id for one in free] == ["d2"]
        assert [one.id for one in await lease(connection, ALL)] == ["d1"], "it waited, and was not lost"
