"""The audit log: written in the transaction of the change that it tells of, read in pages.

Append-only: the application's role may not update or delete. It does not know what the changes mean; whoever
appends leaves secrets out.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import ColumnElement, insert, or_, select, tuple_

from gateway.audit.masking import without_secrets
from gateway.audit.models import AuditLog
from gateway.clock import Clock
from gateway.db import ReadSession, WriteSession
from gateway.ids import IdSource, TenantId

__all__ = ["Actions", "Actor", "AuditEntry", "AuditFilter", "AuditRecord", "AuditRepository", "Place"]

PAGE_MAX = 100


@dataclass(frozen=True, slots=True)
class Actor:
    """Who made a change, and through which request."""

    kind: Literal["admin_key", "api_key", "user", "system"]
    id: str
    request_id: str | None = None
    client_ip: str | None = None


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One change. `details` holds before and after, without secrets."""

    action: str
    resource_kind: str
    resource_id: str
    tenant_id: TenantId | None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AuditRecord:
    id: UUID
    occurred_at: datetime
    actor: Actor
    entry: AuditEntry


Place = tuple[datetime, UUID]


@dataclass(frozen=True, slots=True)
class Actions:
    """Which actions: those that are named, and those that nobody has named, apart for projects and for the rest."""

    named: frozenset[str]
    known: frozenset[str] = frozenset()
    others_of_projects: bool = False
    others_of_organization: bool = False


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """None: not filtered by it. `since` is the first instant, `until` the first one that is too late."""

    tenant_ids: Collection[str] | None = None
    actor_ids: Collection[str] | None = None
    resource_ids: Collection[str] | None = None
    actions: Actions | None = None
    since: datetime | None = None
    until: datetime | None = None
    older_than: Place | None = None
    newer_than: Place | None = None


class AuditRepository:
    def __init__(self, clock: Clock, ids: IdSource) -> None:
        self._clock = clock
        self._ids = ids

    async def append(self, session: WriteSession, actor: Actor, entry: AuditEntry) -> None:
        await session.execute(
            insert(AuditLog).values(
                id=self._ids.uuid7(),
                occurred_at=self._clock.now(),
                actor_kind=actor.kind,
                actor_id=actor.id,
                action=entry.action,
                resource_kind=entry.resource_kind,
                resource_id=entry.resource_id,
                tenant_id=entry.tenant_id,
                request_id=actor.request_id,
                client_ip=actor.client_ip,
                details=without_secrets(entry.details),
            )
        )

    async def page(
        self, session: ReadSession, wanted: AuditFilter | None = None, limit: int = PAGE_MAX
    ) -> list[AuditRecord]:
        """Newest first. At most `limit` (100), and one more, which tells whether there is a next page."""
        wanted = wanted or AuditFilter()
        order = (AuditLog.occurred_at, AuditLog.id)
        query = select(AuditLog).where(*_conditions(wanted)).limit(min(limit, PAGE_MAX) + 1)
        if wanted.older_than is None and wanted.newer_than is not None:
            rows = await session.scalars(query.order_by(*order))
            return [_record(row) for row in reversed(rows.all())]
        rows = await session.scalars(query.order_by(*(column.desc() for column in order)))
        return [_record(row) for row in rows]

    async def place(self, session: ReadSession, id: UUID) -> Place | None:
        """Where a record stands in the list; None if there is none with this id."""
        query = select(AuditLog.occurred_at, AuditLog.id).where(AuditLog.id == id)
        row = (await session.execute(query)).one_or_none()
        return (row.occurred_at, row.id) if row is not None else None


def _conditions(wanted: AuditFilter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    for column, values in (
        (AuditLog.tenant_id, wanted.tenant_ids),
        (AuditLog.actor_id, wanted.actor_ids),
        (AuditLog.resource_id, wanted.resource_ids),
    ):
        if values is not None:
            found.append(column.in_(values))
    if wanted.actions is not None:
        found.append(_any_of(wanted.actions))
    if wanted.since is not None:
        found.append(AuditLog.occurred_at >= wanted.since)
    if wanted.until is not None:
        found.append(AuditLog.occurred_at < wanted.until)
    place = tuple_(AuditLog.occurred_at, AuditLog.id)
    if wanted.older_than is not None:
        found.append(place < wanted.older_than)
    elif wanted.newer_than is not None:
        found.append(place > wanted.newer_than)
    return found


def _any_of(actions: Actions) -> ColumnElement[bool]:
    other = AuditLog.action.not_in(actions.known)
    found: list[ColumnElement[bool]] = [AuditLog.action.in_(actions.named)]
    if actions.others_of_projects:
        found.append(other & AuditLog.tenant_id.is_not(None))
    if actions.others_of_organization:
        found.append(other & AuditLog.tenant_id.is_(None))
    return or_(*found)


def _record(row: AuditLog) -> AuditRecord:
    return AuditRecord(
        row.id,
        row.occurred_at,
        Actor(row.actor_kind, row.actor_id, row.request_id, row.client_ip),  # type: ignore[arg-type]  # written by us
        AuditEntry(
            row.action,
            row.resource_kind,
            row.resource_id,
            TenantId(row.tenant_id) if row.tenant_id is not None else None,
            row.details,
        ),
    )
