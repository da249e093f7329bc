"""Reading one tenant's rows: in order, through a cursor, from one moment, and nobody else's."""

import json

import pytest

from gateway.retention.repository import tenants as module
from gateway.retention.repository.tenants import begin_snapshot, open_hold_count, tenant_rows, tenant_status
from tests.gateway.books import Books
from tests.gateway.usage_events import settled, write
from tests.instants import just_now

NOW = just_now()


async def test_rows_come_in_order_and_of_one_moment(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    await books.add_tenant("proj_b")
    await write(books.database, [settled(number, NOW) for number in range(7)])
    await write(books.database, [settled(9, NOW, asked={"tenant_id": "proj_b"})])
    monkeypatch.setattr(module, "FETCH_ROWS", 3)
    async with books.database.transaction() as connection:
        await begin_snapshot(connection)
        pages = [page async for page in tenant_rows(connection, "usage_event", "proj_a")]
        await write(books.database, [settled(8, NOW)])
        again = [page async for page in tenant_rows(connection, "usage_event", "proj_a")]
    assert [len(page) for page in pages] == [3, 3, 1]
    ids = [json.loads(row)["event_id"] for page in pages for row in page]
    assert ids == sorted(ids)
    assert again == pages


async def test_a_tenant_and_its_holds_are_known(books: Books) -> None:
    async with books.database.transaction() as connection:
        assert await tenant_status(connection, "proj_a") == "active"
        assert await tenant_status(connection, "proj_nobody") is None
        assert await open_hold_count(connection, "proj_a") == 0
