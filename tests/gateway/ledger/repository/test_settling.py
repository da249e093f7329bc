"""The guard and the partitions, under concurrency."""

import asyncio
from datetime import UTC, date, datetime

from gateway.db import Database
from gateway.ids import IdSource
from gateway.ledger.batcher import commit_batch
from gateway.ledger.repository.settling import ensure_partition, month_of
from gateway.ledger.settling import Operation, SettleBatch
from gateway.ledger.types import Hold
from tests.gateway.books import Books
from tests.gateway.ledger.builders import reservation, settlement

NOW = datetime(2026, 11, 29, tzinfo=UTC)


async def test_partitions_are_made_once_by_any_number_of_runners(books: Books, database_url: str) -> None:
    database = Database(database_url, name="test-partitions", pool_size=8)

    async def make() -> int:
        async with database.transaction() as connection:
            return await ensure_partition(connection, date(2040, 1, 1), 13)

    made = await asyncio.gather(*(make() for _ in range(8)))
    await database.close()
    assert sum(made) == 13
    bounds = "SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE relname = 'usage_event_2041_01'"
    assert await books.value(bounds) == (
        "FOR VALUES FROM ('2041-01-01 00:00:00+00') TO ('2041-02-01 00:00:00+00')"
    )


async def test_eight_processes_settle_the_same_hundred_requests_once(books: Books, database_url: str) -> None:
    """In batches that overlap and come in different orders."""
    database = Database(database_url, name="test-settle", pool_size=8)

    async def settle_all(process: int) -> list[object]:
        batch = SettleBatch(IdSource())
        names = [f"req_{(number * 37 + process * 13) % 100}" for number in range(100)]
        operations = [
            Operation(settlement=settlement(Hold(reservation(name), 1, (), NOW, NOW), NOW)) for name in names
        ]
        results: list[object] = []
        for start in range(0, 100, 25):
            part = operations[start : start + 25]
            await batch.prepare(database, part)
            results += await commit_batch(database, part, batch.apply)
        return results

    results = [one for many in await asyncio.gather(*(settle_all(n) for n in range(8))) for one in many]
    await database.close()
    assert results.count("settled") == 100
    assert results.count("duplicate") == 700
    assert (
        await books.count("usage_event") == await books.count("outbox") == await books.count("attempt") == 100
    )


def test_the_month_is_that_of_utc() -> None:
    assert month_of(datetime.fromisoformat("2026-12-01T00:30:00+01:00")) == date(2026, 11, 1)
