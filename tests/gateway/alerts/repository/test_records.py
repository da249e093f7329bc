"""Records, in pages, with their deliveries."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from gateway.alerts.repository.deliveries import NewDelivery, add
from gateway.alerts.repository.records import RecordViews
from gateway.alerts.types import Record
from gateway.db import ReadSession
from gateway.events import Event, announce
from tests.gateway.books import Books, books

__all__ = ["books"]

AT = datetime(2026, 11, 20, tzinfo=UTC)
EVENT = Event("budget.exhausted", "proj_a", "0", {"n": 2**53 + 1}, AT)


def record_of(event: Event) -> Record:
    return Record(event.id, event.type, event.tenant_id, event.payload, event.occurred_at, event.mail)


async def test_records_in_pages_with_their_deliveries(books: Books) -> None:
    events = [replace(EVENT, key=str(n), occurred_at=AT + timedelta(hours=n)) for n in range(4)]
    records = [record_of(event) for event in events]
    drift = Event("ledger.drift", None, "", {}, AT)
    async with books.database.transaction() as connection:
        await announce(connection, [*events, drift])
        await add(connection, [NewDelivery("delivery_1", EVENT.id, "email", "a@x.org", {"to": "a@x.org"})])
    views = RecordViews()
    async with books.database.read() as opened:
        session = ReadSession(opened)
        assert await views.page(session, "proj_a", None, None, 9) == records[::-1]
        assert await views.page(session, "proj_a", None, records[2].id, 1) == [records[1]]
        assert await views.page(session, None, "ledger.drift", None, 9) == [record_of(drift)]
        assert await views.record(session, EVENT.id) == records[0]
        assert await views.record(session, "none") is None
        [delivery] = await views.deliveries(session, EVENT.id)
        assert (delivery.id, delivery.attempts, delivery.delivered_at) == ("delivery_1", 0, None)
