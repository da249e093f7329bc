"""A database with a tenant, a store in a directory, and a clock that tests move."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from gateway.batches.files import FileStore
from gateway.blobs import DirectoryBlobs
from gateway.db import Database
from gateway.ids import IdSource, TenantId
from tests.fakes.clock import ManualClock

TENANT = TenantId("proj_a")


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = Database(database_url, name="tests", pool_size=4)
    async with opened.transaction() as connection:
        await connection.exec_driver_sql(
            "INSERT INTO tenant (id, name) VALUES ('proj_a', 'a'), ('proj_b', 'b')"
        )
    yield opened
    await opened.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def blobs(tmp_path: Path) -> DirectoryBlobs:
    return DirectoryBlobs(tmp_path / "files")


@pytest.fixture
def files(database: Database, blobs: DirectoryBlobs, clock: ManualClock) -> FileStore:
    return FileStore(database, blobs, clock, IdSource(clock))


async def add_batch(
    database: Database, batch_id: str, *, tenant: TenantId = TENANT, state: str = "validating", **fields: Any
) -> None:
    """Made one after another, each a second later."""
    known = {
        "key_id": "key_1",
        "endpoint": "/v1/embeddings",
        "input_file_id": "file-1",
        "completion_window": "24h",
    }
    values = {"tenant_id": tenant, "id": batch_id, "state": state, **known, **fields}
    columns = ", ".join(values)
    marks = ", ".join(f":{name}" for name in values)
    statement = f"""
        INSERT INTO batch ({columns}, created_at, expires_at)
        SELECT {marks}, now() + make_interval(secs => count(*)), now() + interval '1 day' FROM batch
    """
    async with database.transaction() as connection:
        await connection.execute(text(statement), values)


async def pieces(*contents: bytes) -> AsyncIterator[bytes]:
    for content in contents:
        yield content
