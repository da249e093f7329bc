"""Entries in pages, each list with its own kinds."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from gateway.db import ReadSession
from gateway.ids import TenantId
from gateway.ledger.repository.entries import claim
from gateway.ledger.repository.entry_views import EntryViews
from gateway.ledger.types import Entry
from tests.gateway.books import Books, books

__all__ = ["books"]

NOW = datetime(2026, 11, 29, tzinfo=UTC)
CREDIT = Entry("k0", "credit", TenantId("proj_a"), -5, "goodwill", "admin_a", NOW, event_id=UUID(int=7))


async def test_pages_of_entries(books: Books) -> None:
    wanted = [
        replace(CREDIT, idempotency_key=f"k{n}", occurred_at=NOW + timedelta(hours=n // 2)) for n in range(5)
    ]
    wanted.append(replace(CREDIT, idempotency_key="t", kind="top_up", budget_id="b", event_id=None))
    async with books.database.transaction() as connection:
        for entry in wanted:
            assert await claim(connection, entry) is None
    views, both = EntryViews(), ("credit", "top_up")
    async with books.database.read() as opened:
        session = ReadSession(opened)
        assert await views.page(session, ["credit"], "proj_a", None, 9) == wanted[4::-1]
        assert await views.page(session, both, None, "k2", 2) == [wanted[5], wanted[1]]
        assert await views.page(session, both, "proj_b", None, 9) == []
        assert await views.page(session, both, None, "nothing", 9) == []
        assert await views.entry(session, both, "k3") == wanted[3]
        assert await views.entry(session, ["adjustment"], "k3") is None
        assert await views.entry(session, both, "none") is None
