"""Leases: one holder at a time, turns that are fair, and nothing written by who has lost it."""

from __future__ import annotations

from datetime import UTC, datetime

from gateway.batches.repository.batches import find_batch
from gateway.batches.repository.running import (
    answered_lines,
    begin_finalizing,
    begin_work,
    claim,
    end,
    page_of_results,
    release,
    renew,
    save_results,
)
from gateway.batches.types import Lease, LineError, Result
from gateway.db import Database
from gateway.ids import TenantId
from gateway.wire import Usage
from tests.gateway.batches.conftest import TENANT, add_batch

NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def take(database: Database, owner: str = "run_1", not_these: tuple[str, ...] = ()) -> Lease | None:
    async with database.transaction() as connection:
        return await claim(connection, owner, 30.0, not_these)


async def taken(database: Database, owner: str = "run_1") -> Lease:
    lease = await take(database, owner)
    assert lease is not None
    return lease


async def run_out(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.exec_driver_sql("UPDATE batch SET run_after = now() - interval '1s'")


async def test_one_holder_at_a_time_and_a_dead_ones_batch_is_taken_over(database: Database) -> None:
    await add_batch(database, "batch_1")
    first = await taken(database)
    assert (first.epoch, first.takeovers, first.batch.id) == (1, 0, "batch_1")
    assert await take(database) is None
    await run_out(database)
    assert await take(database, not_these=("batch_1",)) is None
    second = await taken(database, "run_2")
    assert (second.epoch, second.takeovers) == (2, 1)
    async with database.transaction() as connection:
        assert await renew(connection, first, 30.0) is None
        assert await renew(connection, second, 30.0) == "validating"
        await release(connection, second, (7, 99), 0.0)
    third = await taken(database)
    assert (third.takeovers, third.next_line, third.next_offset) == (1, 7, 99)


async def test_a_pause_is_kept(database: Database) -> None:
    await add_batch(database, "batch_1")
    lease = await taken(database)
    async with database.transaction() as connection:
        await release(connection, lease, None, 3600.0)
    assert await take(database) is None


async def test_tenants_take_turns_whoever_has_more_batches(database: Database) -> None:
    for number in range(3):
        await add_batch(database, f"batch_{number}")
    await add_batch(database, "batch_b", tenant=TenantId("proj_b"))
    assert {(await taken(database)).batch.tenant_id for _ in range(2)} == {"proj_a", "proj_b"}


async def test_results_are_there_once_and_of_the_holder_only(database: Database) -> None:
    await add_batch(database, "batch_1")
    stale = await taken(database)
    await run_out(database)
    lease = await taken(database)
    good = Result(1, is_error=False, content='{"a": "\\u0000"}', usage=Usage(5, 3, 2, 1))
    bad = Result(2, is_error=True, content="x")
    async with database.transaction() as connection:
        assert not await save_results(connection, stale, [good])
        assert await save_results(connection, lease, [good, bad])
        assert await save_results(connection, lease, [good, bad])  # its first commit was not seen
        assert await answered_lines(connection, lease) == {1, 2}
        row = await find_batch(connection, TENANT, "batch_1")
        assert row is not None
        assert (row.completed, row.failed) == (1, 1)
        assert (row.input_tokens, row.output_tokens, row.cached_tokens, row.reasoning_tokens) == (5, 3, 2, 1)
        assert await page_of_results(connection, lease, is_error=False, after=0, limit=9) == [
            (1, good.content)
        ]
        assert await page_of_results(connection, lease, is_error=True, after=2, limit=9) == []


async def test_who_has_lost_it_ends_nothing(database: Database) -> None:
    await add_batch(database, "batch_1")
    stale = await taken(database)
    await run_out(database)
    lease = await taken(database)
    async with database.transaction() as connection:
        assert not await begin_work(connection, stale, 5, "m", NOW)
        assert await begin_work(connection, lease, 5, "m", NOW)
        assert not await begin_work(connection, lease, 5, "m", NOW)
        assert not await begin_finalizing(connection, stale, NOW)
        assert not await end(connection, stale, "completed", NOW)
        await save_results(connection, lease, [Result(1, is_error=False, content="x")])
        errors = [LineError("c", "m", 3)]
        assert await end(connection, lease, "failed", NOW, output_file_id="file-1", errors=errors)
        assert await answered_lines(connection, lease) == set()
        row = await find_batch(connection, TENANT, "batch_1")
        assert row is not None
        assert (row.state, row.failed_at, row.output_file_id, row.total) == ("failed", NOW, "file-1", 5)
        assert row.errors == [{"code": "c", "message": "m", "line": 3, "param": None}]
        assert not await end(connection, lease, "completed", NOW)
    await run_out(database)
    assert await take(database) is None
