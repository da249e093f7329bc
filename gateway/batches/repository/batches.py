"""Rows of batches as their tenant sees them. Every query names the tenant."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Row, text

from gateway.batches.types import ACTIVE_SQL, BatchRow, NewBatch
from gateway.db import WriteConnection
from gateway.ids import TenantId

__all__ = [
    "BATCH_COLUMNS",
    "ask_to_cancel",
    "batch_of_row",
    "batches_of",
    "count_active",
    "find_batch",
    "insert_batch",
]

_NAMES = {name: "metadata" if name == "labels" else name for name in BatchRow.__slots__}
BATCH_COLUMNS = ", ".join(f"b.{column} AS {name}" for name, column in _NAMES.items())
_INSERTED = [name for name in NewBatch.__slots__ if name != "labels"]
_INSERT = text(
    f"""
    INSERT INTO batch AS b ({", ".join(_INSERTED)}, metadata)
    VALUES ({", ".join(f":{name}" for name in _INSERTED)}, CAST(:metadata AS jsonb))
    RETURNING {BATCH_COLUMNS}
    """
)
_FIND = text(f"SELECT {BATCH_COLUMNS} FROM batch b WHERE b.tenant_id = :tenant_id AND b.id = :id")
_ACTIVE = text(f"SELECT count(*) FROM batch WHERE tenant_id = :tenant_id AND state IN {ACTIVE_SQL}")
# Whoever works on it sees the new state within seconds; if nobody does, somebody takes it up at once.
_CANCEL = text(
    """
    UPDATE batch SET state = 'cancelling', cancelling_at = :now,
        run_after = CASE WHEN lease_owner IS NULL THEN now() ELSE run_after END
    WHERE tenant_id = :tenant_id AND id = :id AND state IN ('validating', 'in_progress')
    """
)


async def insert_batch(connection: WriteConnection, new: NewBatch) -> BatchRow:
    values = {name: getattr(new, name) for name in _INSERTED}
    metadata = msgspec.json.encode(new.labels).decode() if new.labels is not None else None
    return batch_of_row((await connection.execute(_INSERT, {**values, "metadata": metadata})).one())


async def find_batch(connection: WriteConnection, tenant_id: TenantId, batch_id: str) -> BatchRow | None:
    row = (await connection.execute(_FIND, {"tenant_id": tenant_id, "id": batch_id})).one_or_none()
    return batch_of_row(row) if row is not None else None


async def batches_of(
    connection: WriteConnection, tenant_id: TenantId, limit: int, after: str | None
) -> list[BatchRow]:
    """The newest first. After an id that is nobody's there is nothing."""
    place = "" if after is None else (
        "AND (b.created_at, b.id) < (SELECT created_at, id FROM batch WHERE tenant_id = :tenant_id AND id = :after)"
    )  # fmt: skip
    query = f"""
        SELECT {BATCH_COLUMNS} FROM batch b WHERE b.tenant_id = :tenant_id {place}
        ORDER BY b.created_at DESC, b.id DESC LIMIT :limit
    """
    values: dict[str, Any] = {"tenant_id": tenant_id, "limit": limit}
    rows = await connection.execute(text(query), values if after is None else values | {"after": after})
    return [batch_of_row(row) for row in rows]


async def count_active(connection: WriteConnection, tenant_id: TenantId) -> int:
    return int((await connection.execute(_ACTIVE, {"tenant_id": tenant_id})).scalar_one())


async def ask_to_cancel(
    connection: WriteConnection, tenant_id: TenantId, batch_id: str, now: datetime
) -> None:
    """Nothing happens to one that has ended, is ending, or is being cancelled already."""
    await connection.execute(_CANCEL, {"tenant_id": tenant_id, "id": batch_id, "now": now})


def batch_of_row(row: Row[Any]) -> BatchRow:
    return BatchRow(**{name: getattr(row, name) for name in BatchRow.__slots__})
