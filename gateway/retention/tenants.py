"""A tenant's data on request: a whole copy, a deletion that leaves the money, and forgetting one end user.

For an operator's commands. A copy is of one moment and appears whole or not at all; a deletion is one transaction and
leaves an audit row. It does not know what tenants ask of the gateway.
"""

import asyncio
import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from gateway.audit.repository import Actor, AuditEntry, AuditRepository
from gateway.blobs import Blobs
from gateway.clock import Clock
from gateway.db import Database, WriteConnection
from gateway.errors import Conflict, NotFound
from gateway.ids import IdSource, TenantId
from gateway.ledger.repository.notes import erase_user
from gateway.retention.repository import tenants as sql

__all__ = ["Copied", "TenantData"]

MANIFEST = "manifest.json"
OPERATOR = Actor("system", "operator")


@dataclass(frozen=True, slots=True)
class Copied:
    """One file of a copy."""

    rows: int
    sha256: str


@dataclass(slots=True)
class _File:
    path: Path
    rows: int = 0
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    def append(self, data: bytes, rows: int) -> None:
        with self.path.open("ab") as file:
            file.write(data)
        self.digest.update(data)
        self.rows += rows


class TenantData:
    def __init__(self, database: Database, blobs: Blobs, clock: Clock, ids: IdSource) -> None:
        self._database = database
        self._blobs = blobs
        self._audit = AuditRepository(clock, ids)
        self._clock = clock

    async def copy(self, tenant_id: str, directory: Path) -> dict[str, Copied]:
        """JSON lines per table, the contents of the files, and a manifest, in `directory`, which must not exist yet. Raises
        NotFound."""
        fresh = await asyncio.to_thread(_fresh_directory, directory)
        async with self._database.transaction() as connection:
            await sql.begin_snapshot(connection)
            copied = {
                table: await _copy_table(connection, table, tenant_id, fresh) for table in sql.tenant_tables()
            }
            files = await sql.file_ids(connection, tenant_id)
        await self._copy_files(tenant_id, files, fresh / "files")
        if not copied["tenant"].rows:
            await asyncio.to_thread(shutil.rmtree, fresh)
            raise NotFound(f"There is no project {tenant_id}.")
        manifest = {"tenant_id": tenant_id, "copied_at": self._clock.now(), "tables": copied}
        await asyncio.to_thread(_finish, fresh, directory, msgspec.json.encode(manifest))
        return copied

    async def delete(self, tenant_id: str) -> dict[str, int]:
        """How many rows went, by table. Raises NotFound, or Conflict while the tenant is active or has requests."""
        async with self._database.write() as session:
            connection = WriteConnection(await session.connection())
            status = await sql.tenant_status(connection, tenant_id)
            if status is None:
                raise NotFound(f"There is no project {tenant_id}.")
            if status != "archived":
                raise Conflict(
                    f"{tenant_id} is {status}: archive it first, so that nobody can use it any more"
                )
            if holds := await sql.open_hold_count(connection, tenant_id):
                raise Conflict(f"{tenant_id} has {holds} requests that are not settled yet: try again later")
            if batches := await sql.open_batch_count(connection, tenant_id):
                raise Conflict(
                    f"{tenant_id} has {batches} batches that have not ended yet: try again in a moment"
                )
            # First what only rows know of: if this is interrupted, the same command goes on.
            await self._blobs.delete_all(tenant_id)
            gone = await sql.delete_tenant_rows(connection, tenant_id)
            await self._audit.append(session, OPERATOR, _entry("project.data_deleted", tenant_id, gone))
        return gone

    async def _copy_files(self, tenant_id: str, file_ids: Sequence[str], directory: Path) -> None:
        if file_ids:
            await asyncio.to_thread(directory.mkdir)
        for file_id in file_ids:
            file = _File(directory / file_id)
            try:
                async for piece in self._blobs.read(f"{tenant_id}/{file_id}"):
                    await asyncio.to_thread(file.append, piece, 0)
            except FileNotFoundError:  # it went while this copy was made
                continue

    async def forget_user(self, tenant_id: str, user: str) -> int:
        """How many pseudonyms stood for the user, who may be named by one of them too. The money is left as it is."""
        async with self._database.write() as session:
            forgotten = await erase_user(WriteConnection(await session.connection()), tenant_id, user)
            if forgotten:
                told = _entry("user.forgotten", tenant_id, {"pseudonyms": forgotten})
                await self._audit.append(session, OPERATOR, told)
        return forgotten


def _fresh_directory(directory: Path) -> Path:
    if directory.exists():
        raise Conflict(f"{directory} exists already")
    fresh = directory.with_name(directory.name + ".part")
    shutil.rmtree(fresh, ignore_errors=True)
    directory.parent.mkdir(parents=True, exist_ok=True)
    fresh.mkdir(mode=0o700)
    return fresh


def _finish(fresh: Path, directory: Path, manifest: bytes) -> None:
    (fresh / MANIFEST).write_bytes(msgspec.json.format(manifest))
    fresh.rename(directory)


async def _copy_table(connection: WriteConnection, table: str, tenant_id: str, directory: Path) -> Copied:
    file = _File(directory / f"{table}.jsonl")
    await asyncio.to_thread(file.path.touch)
    async for rows in sql.tenant_rows(connection, table, tenant_id):
        await asyncio.to_thread(file.append, "".join(f"{row}\n" for row in rows).encode(), len(rows))
    return Copied(file.rows, file.digest.hexdigest())


def _entry(action: str, tenant_id: str, details: Mapping[str, int]) -> AuditEntry:
    return AuditEntry(action, "project", tenant_id, TenantId(tenant_id), details)
