"""Files of a tenant: uploaded in pieces, read, listed, deleted, and gone when their time is over.

The row comes first and goes last: whatever lies in the blob store, a row knows it, and the sweep removes it. A file is
there for its tenant alone; anybody else's id is as unknown as one that never was.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta

from gateway.batches.repository.files import (
    FilePage,
    delete_file,
    due_files,
    files_of,
    find_file,
    finish_upload,
    forget_file,
    insert_file,
    stored_by,
)
from gateway.batches.types import FileRow, blob_key
from gateway.blobs import BlobError, Blobs
from gateway.clock import Clock
from gateway.db import Database
from gateway.errors import BodyTooLarge, Conflict, InvalidRequest, InvalidValue, NotFound, ServiceUnavailable
from gateway.ids import IdSource, TenantId
from gateway.obs.logging import get_logger

__all__ = ["FILE_BYTES_MAX", "FileStore", "Sweeper", "Uploaded"]

FILE_BYTES_MAX = 200 * 1024 * 1024
TENANT_BYTES_MAX = 50 * FILE_BYTES_MAX
TENANT_FILES_MAX = 10_000
KEPT = timedelta(days=30)
"""For a file whose caller did not say how long."""
UPLOAD_TIME = timedelta(hours=2)
"""An upload that has not ended by then is taken for abandoned."""
FILENAME_CHARS_MAX = 255
SWEEP_FILES = 500

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A content that is stored, and not yet a file that its tenant can see."""

    id: str
    bytes: int


class FileStore:
    def __init__(self, database: Database, blobs: Blobs, clock: Clock, ids: IdSource) -> None:
        self._database = database
        self._blobs = blobs
        self._clock = clock
        self._ids = ids

    async def receive(self, tenant_id: TenantId, filename: str, pieces: AsyncIterator[bytes]) -> Uploaded:
        """The content, stored as it comes. Raises 413, 400 when the tenant has too much, 503 if the store is away."""
        now = self._clock.now()
        file_id = f"file-{self._ids.uuid7().hex}"
        name = filename.replace("\0", "")[-FILENAME_CHARS_MAX:] or "file"
        row = FileRow(tenant_id, file_id, "batch", name, 0, now, now + UPLOAD_TIME)
        async with self._database.transaction() as connection:
            stored = await stored_by(connection, tenant_id)
            if stored.files >= TENANT_FILES_MAX or stored.bytes >= TENANT_BYTES_MAX:
                raise InvalidRequest(
                    f"Your project stores {stored.files} files with {stored.bytes} bytes: delete some of them first."
                )
            await insert_file(connection, row, is_ready=False)
        try:
            size = await self._blobs.write(blob_key(tenant_id, file_id), _bounded(pieces))
        except BlobError as error:
            _log.error("file_not_stored", error=str(error))
            raise ServiceUnavailable("Files cannot be stored right now. Please retry in a moment.") from error
        return Uploaded(file_id, size)

    async def finish(
        self, tenant_id: TenantId, uploaded: Uploaded, expires_after_s: int | None = None
    ) -> FileRow:
        """What was received becomes a file."""
        if not uploaded.bytes:
            raise InvalidValue("The file is empty.", "file")
        kept = KEPT if expires_after_s is None else timedelta(seconds=expires_after_s)
        async with self._database.transaction() as connection:
            row = await finish_upload(
                connection, tenant_id, uploaded.id, uploaded.bytes, self._clock.now() + kept
            )
        if row is None:
            raise InvalidRequest("The upload took too long.")
        return row

    async def discard(self, tenant_id: TenantId, file_id: str) -> None:
        """What was received will not become a file."""
        async with self._database.transaction() as connection:
            await delete_file(connection, tenant_id, file_id, self._clock.now())

    async def get(self, tenant_id: TenantId, file_id: str) -> FileRow:
        async with self._database.transaction() as connection:
            row = await find_file(connection, tenant_id, file_id, self._clock.now())
        if row is None:
            raise NotFound(f"No such File object: {file_id}")
        return row

    async def page(self, tenant_id: TenantId, page: FilePage) -> list[FileRow]:
        async with self._database.transaction() as connection:
            return await files_of(connection, tenant_id, page, self._clock.now())

    async def delete(self, tenant_id: TenantId, file_id: str) -> None:
        """Raises 404, and 409 while a batch reads the file."""
        await self.get(tenant_id, file_id)
        async with self._database.transaction() as connection:
            if not await delete_file(connection, tenant_id, file_id, self._clock.now()):
                raise Conflict("A batch is reading this file: cancel it, or wait until it has ended.")

    async def content(self, row: FileRow) -> AsyncIterator[bytes]:
        """In pieces. Raises 404 if it has just gone, 503 if the store is away."""
        try:
            async for piece in self._blobs.read(blob_key(row.tenant_id, row.id)):
                yield piece
        except FileNotFoundError:
            raise NotFound(f"No such File object: {row.id}") from None
        except BlobError as error:
            _log.error("file_not_read", error=str(error))
            raise ServiceUnavailable("Files cannot be read right now. Please retry in a moment.") from error


class Sweeper:
    """Removes the contents, and then the rows, of files whose time is over. Several may run."""

    def __init__(self, database: Database, blobs: Blobs, clock: Clock) -> None:
        self._database = database
        self._blobs = blobs
        self._clock = clock

    async def run_once(self) -> int:
        """How many went. Raises BlobError if the store is away: the rows stay until it is back."""
        async with self._database.transaction() as connection:
            due = await due_files(connection, self._clock.now(), SWEEP_FILES)
        for tenant_id, file_id in due:
            await self._blobs.delete(blob_key(tenant_id, file_id))
            async with self._database.transaction() as connection:
                await forget_file(connection, tenant_id, file_id)
        return len(due)


async def _bounded(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    size = 0
    async for piece in pieces:
        size += len(piece)
        if size > FILE_BYTES_MAX:
            raise BodyTooLarge(FILE_BYTES_MAX)
        yield piece
