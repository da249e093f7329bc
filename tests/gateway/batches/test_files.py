"""Files: what may come in, and that nothing lies there which no row knows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from gateway.batches import files as module
from gateway.batches.files import FileStore, Sweeper
from gateway.blobs import BlobError, DirectoryBlobs
from gateway.db import Database
from gateway.errors import BodyTooLarge, Conflict, InvalidRequest, NotFound
from tests.fakes.clock import ManualClock
from tests.gateway.batches.conftest import TENANT, pieces


async def test_a_name_from_the_caller_stays_a_name(files: FileStore) -> None:
    uploaded = await files.receive(TENANT, "../../" + "x" * 300 + "\0.jsonl", pieces(b"x"))
    row = await files.finish(TENANT, uploaded)
    assert row.filename == "x" * 249 + ".jsonl"
    assert len(row.filename) == 255


async def test_too_large_is_told_while_it_comes(files: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILE_BYTES_MAX", 10)
    with pytest.raises(BodyTooLarge):
        await files.receive(TENANT, "f", pieces(b"x" * 6, b"x" * 5))


async def test_what_was_given_up_is_swept(
    files: FileStore, database: Database, blobs: DirectoryBlobs, clock: ManualClock
) -> None:
    """An upload whose caller left, one that never became a file, and one that is still coming in."""

    async def leaving() -> AsyncIterator[bytes]:
        yield b"half"
        raise ConnectionError

    sweeper = Sweeper(database, blobs, clock)
    with pytest.raises(ConnectionError):
        await files.receive(TENANT, "f", leaving())
    unfinished = await files.receive(TENANT, "g", pieces(b"x"))
    assert await sweeper.run_once() == 0
    clock.advance(2 * 3600 + 1)
    assert await sweeper.run_once() == 2
    with pytest.raises(FileNotFoundError):
        await anext(blobs.read(f"{TENANT}/{unfinished.id}"))
    with pytest.raises(InvalidRequest, match="too long"):
        await files.finish(TENANT, unfinished)


async def test_rows_stay_while_the_store_is_away(
    files: FileStore, database: Database, blobs: DirectoryBlobs, clock: ManualClock
) -> None:
    row = await files.finish(TENANT, await files.receive(TENANT, "f", pieces(b"x")))
    await files.delete(TENANT, row.id)

    class Away(DirectoryBlobs):
        async def delete(self, key: str) -> None:
            raise BlobError(key)

    with pytest.raises(BlobError):
        await Sweeper(database, Away(blobs._root), clock).run_once()
    assert await Sweeper(database, blobs, clock).run_once() == 1
    assert await Sweeper(database, blobs, clock).run_once() == 0


async def test_a_file_that_a_batch_reads_stays(
    files: FileStore, database: Database, blobs: DirectoryBlobs, clock: ManualClock
) -> None:
    row = await files.finish(TENANT, await files.receive(TENANT, "f", pieces(b"x")))
    async with database.transaction() as connection:
        await connection.exec_driver_sql(
            "INSERT INTO batch (tenant_id, id, key_id, endpoint, input_file_id, completion_window, created_at,"
            f" expires_at) VALUES ('{TENANT}', 'batch_1', 'k', '/v1/embeddings', '{row.id}', '24h', now(), now())"
        )
    with pytest.raises(Conflict):
        await files.delete(TENANT, row.id)
    clock.advance(timedelta(days=31).total_seconds())
    assert await Sweeper(database, blobs, clock).run_once() == 0
    async with database.transaction() as connection:
        await connection.exec_driver_sql("UPDATE batch SET state = 'completed'")
    assert await Sweeper(database, blobs, clock).run_once() == 1
    with pytest.raises(NotFound):
        await files.get(TENANT, row.id)
