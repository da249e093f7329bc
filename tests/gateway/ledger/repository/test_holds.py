"""Holds: written and read back whole, and orphaned by the database's clock only."""

from datetime import UTC, datetime, timedelta

import pytest

from gateway.ids import RequestId
from gateway.ledger.repository.holds import delete_holds, holds_of, insert_holds, orphaned_holds
from gateway.ledger.repository.instances import beat
from gateway.ledger.types import Hold, Take
from tests.gateway.books import Books
from tests.gateway.ledger.builders import reservation

NOW = datetime.now(UTC)
TAKES = (Take("b1", "2026-11", 7), Take("b2", "prepaid", 7))


def hold(name: str = "req_1", expires_in_s: int = 600) -> Hold:
    asked = reservation(
        name,
        user_ref="u",
        is_stream=True,
        request_class="batch",
        client_retry_count=2,
        estimated_prompt_tokens=9,
        endpoint="completions",
    )
    return Hold(asked, 7, TAKES, NOW, NOW + timedelta(seconds=expires_in_s))


async def _insert(books: Books, *holds: Hold) -> None:
    async with books.database.transaction() as connection:
        await beat(connection, "run_1", "gw")
        await insert_holds(connection, "run_1", holds, {})


async def test_a_hold_comes_back_as_it_was_written(books: Books) -> None:
    await _insert(books, hold())
    async with books.database.transaction() as connection:
        assert await holds_of(connection, [RequestId("req_1"), RequestId("req_2")]) == {"req_1": hold()}
        assert await delete_holds(connection, [RequestId("req_1")]) == [TAKES]
        assert await delete_holds(connection, [RequestId("req_1")]) == []


@pytest.mark.parametrize(
    ("change", "is_orphaned"),
    [
        ("UPDATE gateway_instance SET heartbeat_at = now() - interval '29 seconds'", False),
        ("UPDATE gateway_instance SET heartbeat_at = now() - interval '31 seconds'", True),
        ("UPDATE gateway_instance SET stopped_at = now()", True),
        ("DELETE FROM gateway_instance", True),
        ("UPDATE hold SET expires_at = now() - interval '1 second'", True),
    ],
)
async def test_a_hold_is_orphaned_by_the_death_of_its_run_or_by_its_age(
    books: Books, change: str, is_orphaned: bool
) -> None:
    await _insert(books, hold())
    await books.run(change)
    async with books.database.transaction() as connection:
        assert len(await orphaned_holds(connection, silent_s=30, limit=10)) == is_orphaned
