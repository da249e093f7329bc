"""Batches as their tenant sees them."""

from __future__ import annotations

from datetime import UTC, datetime

from gateway.batches.repository.batches import ask_to_cancel, batches_of, count_active, find_batch
from gateway.db import Database
from gateway.ids import TenantId
from tests.gateway.batches.conftest import TENANT, add_batch

NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def test_each_tenant_sees_its_own_newest_first(database: Database) -> None:
    other = TenantId("proj_b")
    for number in range(4):
        await add_batch(database, f"batch_{number}")
    await add_batch(database, "batch_b", tenant=other)
    async with database.transaction() as connection:
        found = [row.id for row in await batches_of(connection, TENANT, 3, None)]
        assert found == ["batch_3", "batch_2", "batch_1"]
        assert [row.id for row in await batches_of(connection, TENANT, 3, "batch_1")] == ["batch_0"]
        assert await batches_of(connection, TENANT, 3, "batch_b") == []
        assert await find_batch(connection, other, "batch_1") is None
        assert await count_active(connection, TENANT) == 4


async def test_only_what_runs_is_cancelled(database: Database) -> None:
    await add_batch(database, "batch_1")
    await add_batch(database, "batch_2", state="completed")
    async with database.transaction() as connection:
        for batch_id in ("batch_1", "batch_2"):
            await ask_to_cancel(connection, TENANT, batch_id, NOW)
            await ask_to_cancel(connection, TenantId("proj_b"), batch_id, NOW)
        rows = {row.id: row for row in await batches_of(connection, TENANT, 9, None)}
        assert (rows["batch_1"].state, rows["batch_1"].cancelling_at) == ("cancelling", NOW)
        assert (rows["batch_2"].state, rows["batch_2"].cancelling_at) == ("completed", None)
        assert await count_active(connection, TENANT) == 1
