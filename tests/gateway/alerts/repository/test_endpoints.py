"""Endpoints as rows: whose they are, who listens, and when one is disabled. The rest goes through the service's tests."""

from __future__ import annotations

from dataclasses import replace

from gateway.alerts.repository.deliveries import NewDelivery, add
from gateway.alerts.repository.endpoints import (
    EVERYBODY,
    OPERATOR,
    EndpointRepository,
    Owner,
    disable,
    listeners,
    pause,
    reseal_secrets,
    sealed_secrets,
)
from gateway.db import ReadSession
from gateway.events import announce
from gateway.ids import TenantId
from tests.gateway.alerts.repository.test_records import EVENT
from tests.gateway.alerts.webhooks.test_vault import ENDPOINT
from tests.gateway.books import Books, books

__all__ = ["books"]

TENANT = TenantId("proj_a")
MINE = replace(ENDPOINT, id="we_2", tenant_id=TENANT, event_types=("budget.exhausted",), secrets_sealed=b"x")
OTHERS = replace(MINE, id="we_3", tenant_id=TenantId("proj_b"))
OPERATORS = replace(ENDPOINT, event_types=("budget.exhausted", "ledger.drift"))


async def insert_all(books: Books) -> EndpointRepository:
    await books.add_tenant("proj_b")
    rows = EndpointRepository()
    async with books.database.write() as session:
        for endpoint in (OPERATORS, MINE, OTHERS):
            await rows.insert(session, endpoint)
    return rows


async def test_each_owner_meets_their_own(books: Books) -> None:
    rows = await insert_all(books)
    async with books.database.read() as opened:
        session = ReadSession(opened)
        assert await rows.page(session, Owner(TENANT), None, 9) == [MINE]
        assert await rows.page(session, OPERATOR, None, 9) == [OPERATORS]
        assert await rows.page(session, EVERYBODY, None, 2) == [OTHERS, MINE]
        assert await rows.page(session, EVERYBODY, "we_3", 9) == [MINE, OPERATORS]
        assert await rows.page(session, Owner(TENANT), "we_3", 9) == [], "nobody's place in this list"
        assert await rows.endpoint(session, Owner(TENANT), "we_3") is None
        assert await rows.endpoint(session, OPERATOR, "we_2") is None
        assert await rows.endpoint(session, EVERYBODY, "we_2") == MINE


async def test_who_listens(books: Books) -> None:
    await insert_all(books)
    async with books.database.transaction() as connection:
        assert await listeners(connection, "budget.exhausted", "proj_a") == ["we_1", "we_2"]
        assert await listeners(connection, "budget.exhausted", None) == ["we_1"]
        assert await listeners(connection, "ledger.drift", None) == ["we_1"]
        assert await listeners(connection, "key.expiring", "proj_a") == []
        assert await disable(connection, "we_1", "gone", "", unless_heard=False) is not None
        assert await listeners(connection, "ledger.drift", None) == []


async def test_one_that_took_something_meanwhile_is_not_disabled(books: Books) -> None:
    await insert_all(books)
    async with books.database.transaction() as connection:
        await announce(connection, [EVENT, replace(EVENT, key="1")])
        first, second = EVENT.id, replace(EVENT, key="1").id
        await add(connection, [NewDelivery("d1", first, "webhook", "we_2", {})])
        await add(connection, [NewDelivery("d2", second, "webhook", "we_2", {})])
    await books.run("UPDATE delivery SET created_at = now() - interval '1 day' WHERE id = 'd1'")
    await books.run("UPDATE delivery SET delivered_at = now(), next_attempt_at = NULL WHERE id = 'd2'")
    async with books.database.transaction() as connection:
        assert await disable(connection, "we_2", "failing", "d1", unless_heard=True) is None
        found = await disable(connection, "we_2", "gone", "d1", unless_heard=False)
        assert found is not None
        assert found[:2] == ("proj_a", "n")
        assert await disable(connection, "we_2", "gone", "d1", unless_heard=False) is None, "once"
        await pause(connection, "we_2", 60.0)
        await pause(connection, "we_2", 1.0)
    [row] = await books.rows("SELECT next_attempt_at, last_error FROM delivery WHERE id = 'd1'")
    assert tuple(row) == (None, "the endpoint was disabled")
    left = "SELECT extract(epoch FROM paused_until - now()) > 30 FROM webhook_endpoint WHERE id = 'we_2'"
    assert await books.value(left), "a shorter pause does not end a longer one"


async def test_sealed_again_unless_it_was_rotated_meanwhile(books: Books) -> None:
    await insert_all(books)
    async with books.database.transaction() as connection:
        assert await sealed_secrets(connection, "", 2) == [("we_1", b""), ("we_2", b"x")]
        assert await sealed_secrets(connection, "we_2", 2) == [("we_3", b"x")]
        await reseal_secrets(connection, "we_2", b"x", b"y")
        await reseal_secrets(connection, "we_3", b"other", b"y")
        assert [row[1] for row in await sealed_secrets(connection, "we_1", 9)] == [b"y", b"x"]


async def test_a_deleted_endpoint_takes_its_deliveries_along(books: Books) -> None:
    rows = await insert_all(books)
    async with books.database.transaction() as connection:
        await announce(connection, [EVENT])
        await add(connection, [NewDelivery(f"d{n}", EVENT.id, "webhook", f"we_{n}", {}) for n in (1, 2)])
    async with books.database.write() as session:
        await rows.delete(session, "we_2")
    assert [row[0] for row in await books.rows("SELECT id FROM delivery")] == ["d1"]
    assert await books.count("webhook_endpoint") == 2
