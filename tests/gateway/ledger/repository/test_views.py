"""The list of events is tested through the admin API; here, that a filter leaves out everybody else's."""

from __future__ import annotations

from gateway.db import ReadSession
from gateway.ledger.repository.views import EventFilter, LedgerViews
from tests.gateway.books import Books, books
from tests.gateway.ledger.repository.test_budget_views import NOW, settle

__all__ = ["books"]


async def test_events_of_one_tenant(books: Books) -> None:
    await settle(books, "req_1", NOW)
    async with books.database.read() as session:
        for tenant_id, count in (("proj_a", 1), ("proj_b", 0)):
            found = await LedgerViews().events(ReadSession(session), EventFilter(tenant_id), None, 5)
            assert len(found) == count
