"""The audit log: written in the transaction of the change that it tells of, read in pages.

Append-only: the application's role may not update or delete. It does not know what the changes mean; whoever
appends leaves secrets out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import insert, select, tuple_

from gateway.audit.models import AuditLog
from gateway.clock import Clock
from gateway.db import ReadSession, WriteSession
from gateway.ids import IdSource, TenantId

__all__ = ["Actor", "AuditEntry", "AuditRecord", "AuditRepository"]

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
                details=dict(entry.details),
            )
        )

    async def page(
        self,
        session: ReadSession,
        *,
        tenant_id: TenantId | None = None,
        before: AuditRecord | None = None,
        limit: int = PAGE_MAX,
    ) -> list[AuditRecord]:
        """Newest first, older than `before`; all tenants and the installation when no tenant is given."""
        query = select(AuditLog).order_by(AuditLog.occurred_at.desc(), AuditLog.id.desc())
        if tenant_id is not None:
            query = query.where(AuditLog.tenant_id == tenant_id)
        if before is not None:
            query = query.where(tuple_(AuditLog.occurred_at, AuditLog.id) < (before.occurred_at, before.id))
        rows = await session.scalars(query.limit(min(limit, PAGE_MAX)))
        return [_record(row) for row in rows]


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
