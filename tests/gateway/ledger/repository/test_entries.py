"""Entries: a key is claimed once, and waits for the transaction that claimed it first."""

import asyncio
from datetime import UTC, datetime
from uuid import UUID

from gateway.ids import TenantId
from gateway.ledger.repository.entries import claim, credit_event, lock_prepaid, raise_limit
from gateway.ledger.types import Entry
from tests.gateway.books import Books

ENTRY = Entry(
    "k1", "credit", TenantId("proj_a"), -5, "goodwill", "admin_a", datetime(2026, 11, 29, tzinfo=UTC),
    event_id=UUID(int=7),
)  # fmt: skip


async def test_a_key_whose_first_owner_gave_up_is_free_again(books: Books) -> None:
    async with books.database.transaction() as first:
        assert await claim(first, ENTRY) is None
        async with books.database.transaction() as second:
            waiting = asyncio.create_task(claim(second, ENTRY))
            done, _ = await asyncio.wait([waiting], timeout=0.1)
            assert not done
            await first.rollback()
            assert await waiting is None
    async with books.database.transaction() as third:
        found = await claim(third, ENTRY)
    assert found is not None
    assert found.is_repeated
    assert (found.kind, found.amount_nanousd, found.event_id) == ("credit", -5, UUID(int=7))


async def test_only_a_prepaid_budget_is_found_and_raised(books: Books) -> None:
    monthly = await books.add_budget(5)
    prepaid = await books.add_budget(5, period="prepaid")
    async with books.database.transaction() as connection:
        assert await lock_prepaid(connection, monthly) is None
        row = await lock_prepaid(connection, prepaid)
        assert row is not None
        assert (row.tenant_id, row.limit_nanousd) == ("proj_a", 5)
        await raise_limit(connection, prepaid, 3)
    assert await books.value("SELECT limit_nanousd FROM budget WHERE period = 'prepaid'") == 8


def test_a_credit_names_no_request_key_or_model() -> None:
    event = credit_event(ENTRY)
    assert event["request_id"] == f"credit_{UUID(int=7).hex}"
    assert (event["key_id"], event["served_model"], event["price_input_id"]) == ("", "", 0)
    assert event["amount_nanousd"] == event["adjustment_nanousd"] == -5
