"""Turns: from the input to the files, whatever interrupts them."""

from __future__ import annotations

import pytest

from gateway.batches.parts import Terms
from gateway.batches.run import BatchRun
from gateway.blobs import BlobError, DirectoryBlobs
from gateway.db import Database
from tests.gateway.batches.conftest import TENANT
from tests.gateway.batches.working import Works


@pytest.fixture
def works(database: Database, blobs: DirectoryBlobs) -> Works:
    return Works(database, blobs, Terms(slice_lines=3))


async def turn(works: Works) -> str:
    return await BatchRun(works.parts, await works.claim(), lambda: False).run()


async def told(works: Works) -> list[tuple[str, str, dict[str, str]]]:
    """The events, each of them to be delivered."""
    async with works.parts.database.transaction() as connection:
        rows = await connection.exec_driver_sql(
            "SELECT r.type, r.tenant_id, r.payload FROM alert_record r"
            " JOIN outbox o ON o.payload ->> 'record_id' = r.id"
        )
        return [tuple(row) for row in rows]


async def test_turns_until_it_is_done(works: Works) -> None:
    batch = await works.begin(*"abcdefgh")
    assert [await turn(works) for _ in range(2)] == ["released", "released"]
    assert await told(works) == []
    assert await turn(works) == "done"
    assert await told(works) == [("batch.completed", TENANT, {"id": batch.id})]
    row = await works.service.get(TENANT, batch.id)
    assert (row.state, row.total, row.completed, row.model) == ("completed", 8, 8, "m")
    assert await works.content(row.output_file_id) == [f"id-{n}" for n in range(8)]
    assert len(works.asked.seen) == 8


async def test_cancelled_before_it_began(works: Works) -> None:
    batch = await works.begin("a")
    await works.service.cancel(TENANT, batch.id)
    assert await turn(works) == "done"
    row = await works.service.get(TENANT, batch.id)
    assert (row.state, row.output_file_id, works.asked.seen) == ("cancelled", None, [])
    assert await told(works) == [("batch.cancelled", TENANT, {"id": batch.id})]


async def test_without_a_good_key_nothing_is_asked(works: Works) -> None:
    batch = await works.begin("a")
    works.others.principal = None
    assert await turn(works) == "done"
    row = await works.service.get(TENANT, batch.id)
    assert (row.state, works.asked.seen) == ("cancelled", [])
    assert row.errors is not None
    assert row.errors[0]["code"] == "invalid_api_key"


async def test_expired_tells_every_line(works: Works, database: Database) -> None:
    batch = await works.begin(*"abcde")
    assert await turn(works) == "released"
    async with database.transaction() as connection:
        await connection.exec_driver_sql("UPDATE batch SET expires_at = now()")
    assert await turn(works) == "done"
    row = await works.service.get(TENANT, batch.id)
    assert (row.state, row.completed, row.failed) == ("expired", 3, 2)
    assert await told(works) == [("batch.expired", TENANT, {"id": batch.id})]
    assert await works.content(row.error_file_id) == ["id-3", "id-4"]


async def test_an_input_that_is_gone_fails_the_batch(works: Works, blobs: DirectoryBlobs) -> None:
    batch = await works.begin("a")
    await blobs.delete(f"{TENANT}/{batch.input_file_id}")
    assert await turn(works) == "done"
    row = await works.service.get(TENANT, batch.id)
    assert row.state == "failed"
    assert row.errors is not None
    assert row.errors[0]["code"] == "file_not_found"
    assert await told(works) == [("batch.failed", TENANT, {"id": batch.id})]


async def test_a_store_that_is_away_is_waited_for(works: Works, blobs: DirectoryBlobs) -> None:
    batch = await works.begin("a")
    real = blobs.write

    async def away(key: str, pieces: object) -> int:
        raise BlobError("away")

    blobs.write = away  # type: ignore[method-assign]  # for a moment
    assert await turn(works) == "released"
    row = await works.service.get(TENANT, batch.id)
    assert row.state == "finalizing"
    blobs.write = real  # type: ignore[method-assign]  # back
    async with works.parts.database.transaction() as connection:
        await connection.exec_driver_sql("UPDATE batch SET run_after = now()")
    assert await turn(works) == "done"
    assert (await works.service.get(TENANT, batch.id)).state == "completed"
    assert len(works.asked.seen) == 1


async def test_lost_it_changes_nothing(works: Works, database: Database) -> None:
    batch = await works.begin("a")
    run = BatchRun(works.parts, await works.claim(), lambda: False)
    async with database.transaction() as connection:
        await connection.exec_driver_sql("UPDATE batch SET lease_epoch = 9, lease_owner = 'other'")
    assert await run.run() == "lost"
    row = await works.service.get(TENANT, batch.id)
    assert (row.state, row.completed) == ("validating", 0)
