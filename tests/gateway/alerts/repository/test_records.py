"""Records: with their outbox row or not at all, and readable in pages."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gateway.alerts.repository.deliveries import NewDelivery, add
from gateway.alerts.repository.records import RecordViews, announce
from gateway.alerts.types import Mail, Record
from gateway.db import ReadSession
from tests.gateway.books import Books, books

__all__ = ["books"]

AT = datetime(2026, 11, 20, tzinfo=UTC)
RECORD = Record("alert_0", "budget.exhausted", "proj_a", {"n": 2**53 + 1}, AT)


async def test_a_record_and_its_outbox_row_share_a_transaction(books: Books) -> None:
    async def cause(fails: bool) -> None:
        async with books.database.transaction() as connection:
            await announce(connection, [RECORD, replace(RECORD, id="alert_1", mail=Mail(("a@x.org",)))])
            if fails:
                raise LookupError

    with pytest.raises(LookupError):
        await cause(fails=True)
    assert (await books.count("alert_record"), await books.count("outbox")) == (0, 0)
    await cause(fails=False)
    rows = await books.rows("SELECT topic, tenant_id, payload FROM outbox ORDER BY id")
    assert [tuple(row) for row in rows] == [
        ("alert", "proj_a", {"record_id": "alert_0", "mail": None}),
        (
            "alert",
            "proj_a",
            {"record_id": "alert_1", "mail": {"recipients": ["a@x.org"], "subject_prefix": None}},
        ),
    ]


async def test_records_in_pages_with_their_deliveries(books: Books) -> None:
    records = [replace(RECORD, id=f"alert_{n}", occurred_at=AT + timedelta(hours=n // 2)) for n in range(4)]
    other = replace(RECORD, id="alert_9", type="ledger.drift", tenant_id=None)
    async with books.database.transaction() as connection:
        await announce(connection, [*records, other])
        await add(connection, [NewDelivery("delivery_1", "alert_0", "email", "a@x.org", {"to": "a@x.org"})])
    views = RecordViews()
    async with books.database.read() as opened:
        session = ReadSession(opened)
        assert await views.page(session, "proj_a", None, None, 9) == records[::-1]
        assert await views.page(session, "proj_a", None, "alert_2", 1) == [records[1]]
        assert await views.page(session, None, "ledger.drift", None, 9) == [other]
        assert await views.record(session, "alert_0") == records[0]
        assert await views.record(session, "none") is None
        [delivery] = await views.deliveries(session, "alert_0")
        assert (delivery.id, delivery.attempts, delivery.delivered_at) == ("delivery_1", 0, None)
