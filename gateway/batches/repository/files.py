"""Rows of files. Every query names its tenant, but for those of the sweeper, which serves all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Row, text

from gateway.batches.types import ACTIVE_SQL, FileRow
from gateway.db import WriteConnection
from gateway.ids import TenantId

__all__ = [
    "FilePage",
    "Stored",
    "delete_file",
    "due_files",
    "files_of",
    "find_file",
    "finish_upload",
    "forget_file",
]
__all__ += ["insert_file", "stored_by"]

_COLUMNS = "tenant_id, id, purpose, filename, bytes, created_at, expires_at"
_VISIBLE = "tenant_id = :tenant_id AND state = 'ready' AND (expires_at IS NULL OR expires_at > :now)"
_IN_USE = f"""
    EXISTS (SELECT FROM batch b WHERE b.tenant_id = f.tenant_id AND b.input_file_id = f.id
        AND b.state IN {ACTIVE_SQL})
"""
_INSERT = text(
    """
    INSERT INTO stored_file (tenant_id, id, purpose, filename, bytes, state, created_at, expires_at)
    VALUES (:tenant_id, :id, :purpose, :filename, :bytes, :state, :created_at, :expires_at)
    ON CONFLICT (tenant_id, id) DO NOTHING
    """
)
_FINISH = text(
    f"""
    UPDATE stored_file SET state = 'ready', bytes = :bytes, expires_at = :expires_at
    WHERE tenant_id = :tenant_id AND id = :id AND state = 'uploading' RETURNING {_COLUMNS}
    """
)
_FIND = text(f"SELECT {_COLUMNS} FROM stored_file WHERE {_VISIBLE} AND id = :id")
_STORED = text(
    "SELECT count(*), coalesce(sum(bytes), 0) FROM stored_file WHERE tenant_id = :tenant_id AND state <> 'deleted'"
)
_DELETE = text(
    f"""
    UPDATE stored_file f SET state = 'deleted', expires_at = :now
    WHERE tenant_id = :tenant_id AND id = :id AND NOT {_IN_USE}
    """
)
_DUE = text(
    f"""
    SELECT tenant_id, id FROM stored_file f WHERE expires_at <= :now AND NOT {_IN_USE} ORDER BY expires_at LIMIT :limit
    """
)
_FORGET = text("DELETE FROM stored_file WHERE tenant_id = :tenant_id AND id = :id")


@dataclass(frozen=True, slots=True)
class Stored:
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class FilePage:
    """What a list asks for. `after` is a file's id."""

    limit: int
    after: str | None = None
    order: Literal["asc", "desc"] = "desc"
    purpose: str | None = None


async def insert_file(connection: WriteConnection, row: FileRow, *, is_ready: bool) -> None:
    """A file that is being uploaded, or one of ours that is whole; one that is there already is left as it is."""
    values = {name: getattr(row, name) for name in FileRow.__slots__}
    await connection.execute(_INSERT, {**values, "state": "ready" if is_ready else "uploading"})


async def finish_upload(
    connection: WriteConnection, tenant_id: TenantId, file_id: str, size: int, expires_at: datetime | None
) -> FileRow | None:
    """None if it was removed meanwhile: the upload took too long."""
    values = {"tenant_id": tenant_id, "id": file_id, "bytes": size, "expires_at": expires_at}
    row = (await connection.execute(_FINISH, values)).one_or_none()
    return _file(row) if row is not None else None


async def find_file(
    connection: WriteConnection, tenant_id: TenantId, file_id: str, now: datetime
) -> FileRow | None:
    row = (await connection.execute(_FIND, {"tenant_id": tenant_id, "id": file_id, "now": now})).one_or_none()
    return _file(row) if row is not None else None


async def files_of(
    connection: WriteConnection, tenant_id: TenantId, page: FilePage, now: datetime
) -> list[FileRow]:
    """At most `limit`, by age. After an id that is nobody's there is nothing."""
    sign = "<" if page.order == "desc" else ">"
    after = (
        f"AND (created_at, id) {sign} (SELECT created_at, id FROM stored_file"
        " WHERE tenant_id = :tenant_id AND id = :after)"
        if page.after is not None
        else ""
    )
    purpose = "AND purpose = :purpose" if page.purpose is not None else ""
    query = f"""
        SELECT {_COLUMNS} FROM stored_file WHERE {_VISIBLE} {after} {purpose}
        ORDER BY created_at {page.order}, id {page.order} LIMIT :limit
    """
    values = {"tenant_id": tenant_id, "now": now, "limit": page.limit}
    values |= {"after": page.after} if after else {}
    values |= {"purpose": page.purpose} if purpose else {}
    return [_file(row) for row in await connection.execute(text(query), values)]


async def stored_by(connection: WriteConnection, tenant_id: TenantId) -> Stored:
    return Stored(*map(int, (await connection.execute(_STORED, {"tenant_id": tenant_id})).one()))


async def delete_file(connection: WriteConnection, tenant_id: TenantId, file_id: str, now: datetime) -> bool:
    """From now on it is not there; its content goes with the next sweep. False while a batch reads it."""
    values = {"tenant_id": tenant_id, "id": file_id, "now": now}
    return (await connection.execute(_DELETE, values)).rowcount > 0


async def due_files(connection: WriteConnection, now: datetime, limit: int) -> Sequence[tuple[str, str]]:
    """Tenant and id of files whose content is to go, oldest first."""
    rows = await connection.execute(_DUE, {"now": now, "limit": limit})
    return [(row[0], row[1]) for row in rows]


async def forget_file(connection: WriteConnection, tenant_id: str, file_id: str) -> None:
    await connection.execute(_FORGET, {"tenant_id": tenant_id, "id": file_id})


def _file(row: Row[Any]) -> FileRow:
    return FileRow(**row._mapping)
