"""What a keeper knows: the lease, the state, the key."""

from __future__ import annotations

import asyncio

from gateway.batches.keeper import Keeper
from gateway.batches.parts import Terms
from gateway.blobs import DirectoryBlobs
from gateway.db import Database
from gateway.tenancy.principal import Principal
from tests.fakes.clock import ManualClock
from tests.gateway.batches.conftest import TENANT
from tests.gateway.batches.working import PRINCIPAL, Works


async def until(condition: object) -> None:
    assert callable(condition)
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  (the keeper has no event)
            await asyncio.sleep(0.01)


async def test_it_sees_what_changes(database: Database, blobs: DirectoryBlobs) -> None:
    works = Works(database, blobs, Terms(lease_s=60.0))
    batch = await works.begin("x")
    lease = await works.claim()
    keeper = Keeper(
        database, lease, works.others, ManualClock(), 3.0
    )  # it looks each second, and is never late
    assert not keeper.may_go_on
    await keeper.begin()
    assert keeper.may_go_on
    task = asyncio.create_task(keeper.run())
    works.others.principal = Principal(TENANT, PRINCIPAL.key_id, frozenset({"usage.read"}))
    await until(lambda: not keeper.may_go_on)
    works.others.principal = PRINCIPAL
    await until(lambda: keeper.may_go_on)
    await works.service.cancel(TENANT, batch.id)
    await until(lambda: keeper.state == "cancelling")
    assert not keeper.may_go_on
    async with database.transaction() as connection:
        await connection.exec_driver_sql("UPDATE batch SET lease_epoch = 9")
    await asyncio.wait_for(task, 60)
    assert keeper.is_lost


async def test_without_a_word_from_the_database_it_is_not_sure_for_long(
    database: Database, blobs: DirectoryBlobs
) -> None:
    works = Works(database, blobs, Terms(lease_s=15.0))
    await works.begin("x")
    clock = ManualClock()
    keeper = Keeper(database, await works.claim(), works.others, clock, 15.0)
    await keeper.begin()
    assert keeper.may_go_on
    clock.advance(15.0)
    assert not keeper.may_go_on
