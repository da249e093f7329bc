"""Rows of files: pages in order of age, each tenant's own."""

from __future__ import annotations

from datetime import timedelta

from gateway.batches.repository.files import (
    FilePage,
    Stored,
    delete_file,
    files_of,
    find_file,
    insert_file,
    stored_by,
)
from gateway.batches.types import FileRow
from gateway.db import Database
from gateway.ids import TenantId
from tests.fakes.clock import ManualClock
from tests.gateway.batches.conftest import TENANT


async def test_pages_are_the_tenants_own_and_in_order(database: Database, clock: ManualClock) -> None:
    now = clock.now()
    async with database.transaction() as connection:
        for number in range(6):
            owner = TenantId("proj_b") if number == 2 else TENANT
            at = now + timedelta(seconds=number // 2)  # two of each second
            purpose = "batch_output" if number == 5 else "batch"
            row = FileRow(owner, f"file-{number}", purpose, "f", 10, at, None)
            await insert_file(connection, row, is_ready=True)
            await insert_file(connection, row, is_ready=True)
        expired = FileRow(TENANT, "file-9", "batch", "f", 10, now, now)
        await insert_file(connection, expired, is_ready=True)

        async def ids(page: FilePage) -> list[str]:
            return [row.id for row in await files_of(connection, TENANT, page, now)]

        assert await ids(FilePage(10)) == ["file-5", "file-4", "file-3", "file-1", "file-0"]
        assert await ids(FilePage(2, after="file-4")) == ["file-3", "file-1"]
        assert await ids(FilePage(10, after="file-1", order="asc")) == ["file-3", "file-4", "file-5"]
        assert await ids(FilePage(10, purpose="batch_output")) == ["file-5"]
        assert await ids(FilePage(10, after="file-2")) == []
        assert await stored_by(connection, TENANT) == Stored(6, 60)


async def test_a_file_is_deleted_by_its_tenant_alone(database: Database, clock: ManualClock) -> None:
    now = clock.now()
    async with database.transaction() as connection:
        await insert_file(connection, FileRow(TENANT, "file-1", "batch", "f", 10, now, None), is_ready=True)
        assert not await delete_file(connection, TenantId("proj_b"), "file-1", now)
        assert await find_file(connection, TENANT, "file-1", now) is not None
        assert await delete_file(connection, TENANT, "file-1", now)
        assert await find_file(connection, TENANT, "file-1", now) is None
