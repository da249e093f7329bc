"""One request as its tenant sees it; the shape is tested through HTTP (http/admin/test_requests.py)."""

from __future__ import annotations

from datetime import UTC, datetime

from gateway.ledger.repository.request_detail import request_detail
from tests.gateway.books import Books
from tests.gateway.usage_events import correct, settled, write

AT = datetime(2026, 3, 29, tzinfo=UTC)


async def test_events_add_up_and_belong_to_one_tenant(books: Books) -> None:
    [event] = await write(books.database, [settled(1, AT)])
    await correct(books.database, event, output_nanousd=-400)
    await correct(books.database, event, output_nanousd=-100)
    async with books.database.read() as session:
        found = await request_detail(session, "req_000001", "proj_a")
        assert found is not None
        assert (found.event.event_id, found.net_nanousd) == (event["event_id"], 3_000 - 500)
        assert [one.event.amount_nanousd for one in found.corrections] == [-400, -100]
        assert [view.attempt.attempt for view in found.attempts] == [0]
        assert await request_detail(session, "req_000001", "proj_b") is None
        assert await request_detail(session, "req_none", None) is None
