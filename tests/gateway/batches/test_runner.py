"""The runner: takes what there is, gives others their turn, survives what breaks, and stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.batches.parts import Terms
from gateway.batches.runner import BatchRunner
from gateway.blobs import DirectoryBlobs
from gateway.db import Database
from tests.gateway.batches.conftest import TENANT
from tests.gateway.batches.working import Works

TERMS = Terms(batches_at_once=2, lines_at_once=2, slice_lines=4, idle_s=0.05, lease_s=120.0, stop_s=60.0)


@pytest.fixture
def works(database: Database, blobs: DirectoryBlobs) -> Works:
    return Works(database, blobs, TERMS)


@asynccontextmanager
async def running(works: Works) -> AsyncIterator[BatchRunner]:
    runner = BatchRunner(works.parts, "run_1")
    runner.start()
    try:
        yield runner
    finally:
        await runner.stop()


async def state(works: Works, batch_id: str, *wanted: str) -> str:
    async with asyncio.timeout(60):
        while (row := await works.service.get(TENANT, batch_id)).state not in wanted:  # noqa: ASYNC110  (far away)
            await asyncio.sleep(0.02)
    return row.state


async def test_all_of_them_end(works: Works) -> None:
    made = [await works.begin(*"abcdefghij") for _ in range(5)]
    async with running(works):
        for batch in made:
            assert await state(works, batch.id, "completed") == "completed"
    assert len(works.asked.seen) == 50
    assert works.asked.most_at_once <= 4
    assert works.parts.metrics.batches_running._value.get() == 0


async def test_what_breaks_is_counted_and_tried_again_later(
    works: Works, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.batches.runner.BROKEN_PAUSE_S", 0.1)
    batch = await works.begin("a")
    real, times = works.asked.run, []

    async def broken(*arguments: object) -> None:
        times.append(1)
        if len(times) == 1:
            raise RuntimeError("a bug")
        await real(*arguments)  # type: ignore[arg-type]  # passed on

    works.asked.run = broken  # type: ignore[method-assign]  # once
    async with running(works):
        assert await state(works, batch.id, "completed") == "completed"
    assert works.parts.metrics.batch_runs.labels("failed")._value.get() == 1


async def test_it_never_takes_over_from_itself(works: Works, database: Database) -> None:
    """Its lease ran out, since the database was slow, but nobody else has taken the batch."""
    batch = await works.begin("a")
    works.asked.delay_s = 0.5
    async with running(works):
        async with asyncio.timeout(60):
            while not works.asked.at_once:  # noqa: ASYNC110  (asked by somebody else)
                await asyncio.sleep(0.01)
        async with database.transaction() as connection:
            await connection.exec_driver_sql("UPDATE batch SET run_after = now() - interval '1s'")
        assert await state(works, batch.id, "completed") == "completed"
    assert len(works.asked.seen) == 1
    async with database.transaction() as connection:
        row = (await connection.exec_driver_sql("SELECT lease_epoch, takeovers FROM batch")).one()
    assert tuple(row) == (1, 0)


async def test_stopped_it_lets_lines_end_and_gives_the_batch_back(works: Works, database: Database) -> None:
    batch = await works.begin(*"abcdef")
    works.asked.gate.clear()
    async with running(works) as runner:
        async with asyncio.timeout(60):
            while works.asked.at_once < 2:  # noqa: ASYNC110  (asked by somebody else)
                await asyncio.sleep(0.01)
        stopping = asyncio.create_task(runner.stop())
        await asyncio.sleep(0)
        works.asked.gate.set()
        await stopping
    row = await works.service.get(TENANT, batch.id)
    assert (row.completed, row.state) == (2, "in_progress")
    assert works.asked.at_once == 0
    async with running(works):
        assert await state(works, batch.id, "completed") == "completed"
    assert len(works.asked.seen) == 6
    assert {caller.first_attempt for _, caller, _ in works.asked.seen} == {0}
