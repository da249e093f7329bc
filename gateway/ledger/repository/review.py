"""The review list: evidence that cannot or must not settle by itself, and what a person made of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import msgspec
from sqlalchemy import text

from gateway.db import WriteConnection
from gateway.ledger.models import ReviewItem
from gateway.ledger.repository.rows import insert_recordset

__all__ = [
    "OpenItem",
    "ReviewKind",
    "ReviewNote",
    "list_unknown_requests",
    "open_items",
    "open_items_by_kind",
    "resolve_item",
    "resolve_settled",
    "write_notes",
]

ReviewKind = Literal["unreadable_record", "evidence_without_request", "engine_gone", "stale_settlement"]

_WRITE = text(
    insert_recordset(ReviewItem, "notes", skip=("id", "created_at", "resolved_at", "resolution"))
    + " ON CONFLICT (kind, subject) DO NOTHING"
)
# Old enough that a gateway's spool, or the end of an outage, would have brought its settlement by now.
_UNKNOWN = text(
    """
    INSERT INTO review_item (kind, subject, request_id, replica_id, details)
    SELECT 'evidence_without_request', j.request_id, j.request_id, max(j.replica_id), jsonb_build_object(
        'prompt_tokens', sum(j.prompt_tokens), 'completion_tokens', sum(j.completion_tokens), 'at', max(j.at))
    FROM journal_attempt j
    WHERE j.matched_at IS NULL AND j.read_at < now() - make_interval(secs => :age_s)
        AND NOT EXISTS (SELECT FROM settled_request s WHERE s.request_id = j.request_id)
        AND NOT EXISTS (SELECT FROM hold h WHERE h.request_id = j.request_id)
        AND NOT EXISTS (SELECT FROM review_item r
            WHERE r.kind = 'evidence_without_request' AND r.subject = j.request_id)
    GROUP BY j.request_id ORDER BY j.request_id LIMIT :limit
    ON CONFLICT (kind, subject) DO NOTHING
    """
)
_RESOLVE_SETTLED = text(
    """
    UPDATE review_item r SET resolved_at = now(), resolution = 'settled from evidence'
    FROM settled_request s
    WHERE r.resolved_at IS NULL AND r.kind IN ('evidence_without_request', 'engine_gone')
        AND s.request_id = r.request_id AND NOT s.is_provisional
    """
)
_RESOLVE = text(
    """
    UPDATE review_item SET resolved_at = now(), resolution = :resolution
    WHERE id = :id AND resolved_at IS NULL
    """
)
_OPEN = text(
    """
    SELECT id, kind, subject, request_id, tenant_id, replica_id, details, created_at FROM review_item
    WHERE resolved_at IS NULL AND id > :after ORDER BY id LIMIT :limit
    """
)
_BY_KIND = text("SELECT kind, count(*) FROM review_item WHERE resolved_at IS NULL GROUP BY 1")


@dataclass(frozen=True, slots=True)
class ReviewNote:
    """Something for a person to look at. The same subject of the same kind is listed once."""

    kind: ReviewKind
    subject: str
    request_id: str | None = None
    tenant_id: str | None = None
    replica_id: str | None = None
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OpenItem:
    id: int
    kind: str
    subject: str
    request_id: str | None
    tenant_id: str | None
    replica_id: str | None
    details: dict[str, Any]
    created_at: datetime


async def write_notes(connection: WriteConnection, notes: Sequence[ReviewNote]) -> None:
    if notes:
        ordered = sorted(notes, key=lambda note: (note.kind, note.subject))
        await connection.execute(_WRITE, {"notes": msgspec.json.encode(ordered).decode()})


async def list_unknown_requests(connection: WriteConnection, age_s: float, limit: int) -> int:
    """Put on the list what journals say of requests that the ledger has never heard of; how many were new."""
    return (await connection.execute(_UNKNOWN, {"age_s": age_s, "limit": limit})).rowcount


async def resolve_settled(connection: WriteConnection) -> int:
    """Evidence came after all: what it settled needs nobody any more."""
    return (await connection.execute(_RESOLVE_SETTLED)).rowcount


async def resolve_item(connection: WriteConnection, item_id: int, resolution: str) -> bool:
    """False if there is no such open item."""
    done = await connection.execute(_RESOLVE, {"id": item_id, "resolution": resolution})
    return done.rowcount == 1


async def open_items(connection: WriteConnection, after: int, limit: int) -> list[OpenItem]:
    """Oldest first, behind the item `after`."""
    rows = await connection.execute(_OPEN, {"after": after, "limit": limit})
    return [OpenItem(*row) for row in rows]


async def open_items_by_kind(connection: WriteConnection) -> dict[str, int]:
    rows = await connection.execute(_BY_KIND)
    return {row[0]: int(row[1]) for row in rows}
