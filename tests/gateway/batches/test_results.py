"""Results: many in one statement, none of them twice, and known to be there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.batches.repository.running import answered_lines, claim
from gateway.batches.results import LeaseLost, ResultWriter
from gateway.batches.types import Lease, Result
from gateway.db import Database
from tests.gateway.batches.conftest import add_batch


@asynccontextmanager
async def writing(database: Database, lease: Lease) -> AsyncIterator[ResultWriter]:
    writer = ResultWriter(database, lease)
    task = asyncio.create_task(writer.run())
    try:
        yield writer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def lease_of(database: Database) -> Lease:
    async with database.transaction() as connection:
        lease = await claim(connection, "run_1", 30.0)
    assert lease is not None
    return lease


async def test_who_put_a_result_finds_it_there(database: Database) -> None:
    await add_batch(database, "batch_1")
    lease = await lease_of(database)
    async with writing(database, lease) as writer:
        await asyncio.gather(*(writer.put(Result(n, is_error=False, content="x")) for n in range(300)))
    async with database.transaction() as connection:
        assert await answered_lines(connection, lease) == set(range(300))


async def test_who_lost_the_lease_is_told(database: Database) -> None:
    await add_batch(database, "batch_1")
    lease = await lease_of(database)
    async with database.transaction() as connection:
        await connection.exec_driver_sql("UPDATE batch SET lease_epoch = 9")
    async with writing(database, lease) as writer:
        with pytest.raises(LeaseLost):
            await writer.put(Result(1, is_error=False, content="x"))


async def test_a_database_that_is_away_is_waited_for(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_batch(database, "batch_1")
    lease = await lease_of(database)
    real, tries = database.transaction, []

    def transaction():  # type: ignore[no-untyped-def]  # as the database's own
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionRefusedError
        return real()

    monkeypatch.setattr("gateway.batches.results.RETRY_S", 0.01)
    monkeypatch.setattr(database, "transaction", transaction)
    async with writing(database, lease) as writer:
        await writer.put(Result(1, is_error=False, content="x"))
    assert len(tries) == 2
