"""Slices: how many lines at once, what is asked again under which id, and where the next one begins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from gateway.batches.keeper import Keeper
from gateway.batches.naming import request_id
from gateway.batches.parts import Terms
from gateway.batches.repository.running import begin_work
from gateway.batches.results import ResultWriter
from gateway.batches.slice import Place, Slice
from gateway.batches.types import Lease
from gateway.blobs import DirectoryBlobs
from gateway.db import Database
from gateway.errors import EngineFailed, Overloaded, RateLimited
from tests.gateway.batches.conftest import TENANT
from tests.gateway.batches.working import Works

TERMS = Terms(lines_at_once=4, slice_lines=10, slice_s=20.0)


async def work(works: Works, lease: Lease, is_stopping: Callable[[], bool] = lambda: False) -> Place:
    parts = works.parts
    keeper = Keeper(parts.database, lease, works.others, parts.clock, 30.0)
    writer = ResultWriter(parts.database, lease)
    await keeper.begin()
    beside = asyncio.create_task(writer.run())
    try:
        return await Slice(parts, lease, keeper, writer, is_stopping).run()
    finally:
        beside.cancel()
        await asyncio.gather(beside, return_exceptions=True)


@pytest.fixture
def works(database: Database, blobs: DirectoryBlobs) -> Works:
    return Works(database, blobs, TERMS)


async def test_some_lines_at_once_and_a_slice_ends(works: Works) -> None:
    batch = await works.begin(*map(str, range(25)))
    works.asked.delay_s = 0.01
    place = await work(works, await works.claim())
    assert (place.line, works.asked.most_at_once, len(works.asked.seen)) == (11, 4, 10)
    callers = {(caller.request_class, caller.first_attempt) for _, caller, _ in works.asked.seen}
    assert callers == {("batch", 0)}
    assert [one for one, _, _ in works.asked.seen] == [request_id(batch.id, n, 0) for n in range(1, 11)]
    row = await works.service.get(TENANT, batch.id)
    assert (row.completed, row.input_tokens) == (10, 20)


async def test_stopped_it_begins_nothing(works: Works) -> None:
    await works.begin("a", "b")
    assert await work(works, await works.claim(), lambda: True) == Place(1, 0)
    assert works.asked.seen == []


async def test_errors_that_were_settled_use_up_an_id_and_others_do_not(works: Works) -> None:
    batch = await works.begin("a")
    works.asked.fail(RateLimited("requests", "later", 0.05))
    works.asked.fail(Overloaded(0.05), settled=False)
    works.asked.fail(Overloaded(0.05), settled=True)
    await work(works, await works.claim())
    assert [one for one, _, _ in works.asked.seen] == [request_id(batch.id, 1, run) for run in (0, 0, 0, 1)]
    assert (await works.service.get(TENANT, batch.id)).completed == 1


async def test_an_engine_that_always_breaks_is_the_lines_answer(works: Works) -> None:
    batch = await works.begin("a")
    works.asked.fail(EngineFailed(), settled=True, times=3)
    await work(works, await works.claim())
    row = await works.service.get(TENANT, batch.id)
    assert (row.completed, row.failed, len(works.asked.seen)) == (0, 1, 3)


async def test_a_line_that_is_not_done_is_where_the_next_slice_begins(works: Works) -> None:
    """The one before stopped while a line waited; lines behind it are done and not asked again."""
    await works.begin(*"abcdef")
    works.parts = replace(works.parts, terms=Terms())
    first_line_waits = RateLimited("requests", "later", 30.0)
    works.asked.fail(first_line_waits)
    place = await work(works, await works.claim(), lambda: len(works.asked.seen) >= 6)
    assert place == Place(1, 0)
    assert len(works.asked.seen) == 6


async def test_what_a_dead_gateway_held_is_given_back_first(works: Works, database: Database) -> None:
    batch = await works.begin("a", "b")
    first = await works.claim()
    async with database.transaction() as connection:
        assert await begin_work(connection, first, 2, "m", works.parts.clock.now())
        await connection.exec_driver_sql("UPDATE batch SET run_after = now() - interval '1s'")
        await connection.exec_driver_sql(
            "INSERT INTO settled_request (request_id, tenant_id, event_id, occurred_at, is_provisional)"
            f" VALUES ('{request_id(batch.id, 1, 0)}', '{TENANT}', gen_random_uuid(), now(), true)"
        )
    place = await work(works, await works.claim("run_2"))
    assert place.line == 3
    named = [one for one, _, _ in works.asked.seen]
    assert sorted(named) == sorted(request_id(batch.id, line, 0) for line in (1, 2))
    assert {caller.first_attempt for _, caller, _ in works.asked.seen} == {10}
    assert works.others.given_back == [request_id(batch.id, 1, 0)]  # paid for before: its new hold goes back
