"""The admin API's readings of the ledger. Keyset-paged, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import select, tuple_

from gateway.db import ReadSession
from gateway.ledger.models import UsageEvent

__all__ = ["EventCursor", "EventFilter", "LedgerViews"]


@dataclass(frozen=True, slots=True)
class EventCursor:
    occurred_at: datetime
    event_id: UUID


@dataclass(frozen=True, slots=True)
class EventFilter:
    tenant_id: str | None = None
    request_id: str | None = None
    served_model: str | None = None


class LedgerViews:
    async def events(
        self, session: ReadSession, wanted: EventFilter, before: EventCursor | None, limit: int
    ) -> Sequence[UsageEvent]:
        query = (
            select(UsageEvent)
            .order_by(UsageEvent.occurred_at.desc(), UsageEvent.event_id.desc())
            .limit(limit)
        )
        if wanted.tenant_id is not None:
            query = query.where(UsageEvent.tenant_id == wanted.tenant_id)
        if wanted.request_id is not None:
            query = query.where(UsageEvent.request_id == wanted.request_id)
        if wanted.served_model is not None:
            query = query.where(UsageEvent.served_model == wanted.served_model)
        if before is not None:
            key = tuple_(UsageEvent.occurred_at, UsageEvent.event_id)
            query = query.where(key < (before.occurred_at, before.event_id))
        return (await session.scalars(query)).all()
