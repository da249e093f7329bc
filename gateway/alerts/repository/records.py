"""What was announced, read in pages, and how it was delivered."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select, tuple_

from gateway.alerts.models import AlertRecord, Delivery
from gateway.alerts.types import Record
from gateway.db import ReadSession

__all__ = ["DeliveryView", "RecordViews"]


@dataclass(frozen=True, slots=True)
class DeliveryView:
    id: str
    channel: str
    target_key: str
    attempts: int
    next_attempt_at: datetime | None
    delivered_at: datetime | None
    last_error: str | None


class RecordViews:
    async def page(
        self, session: ReadSession, tenant_id: str | None, kind: str | None, after: str | None, limit: int
    ) -> list[Record]:
        """Newest first."""
        order = tuple_(AlertRecord.occurred_at, AlertRecord.id)
        query = select(AlertRecord).order_by(AlertRecord.occurred_at.desc(), AlertRecord.id.desc())
        if tenant_id is not None:
            query = query.where(AlertRecord.tenant_id == tenant_id)
        if kind is not None:
            query = query.where(AlertRecord.type == kind)
        if after is not None:
            last = select(AlertRecord.occurred_at, AlertRecord.id).where(AlertRecord.id == after)
            query = query.where(order < last.scalar_subquery())
        return [_record(row) for row in await session.scalars(query.limit(limit))]

    async def record(self, session: ReadSession, record_id: str) -> Record | None:
        row = await session.get(AlertRecord, record_id)
        return _record(row) if row is not None else None

    async def deliveries(self, session: ReadSession, record_id: str) -> list[DeliveryView]:
        query = select(Delivery).where(Delivery.record_id == record_id).order_by(Delivery.id)
        return [
            DeliveryView(
                row.id,
                row.channel,
                row.target_key,
                row.attempts,
                row.next_attempt_at,
                row.delivered_at,
                row.last_error,
            )
            for row in await session.scalars(query)
        ]


def _record(row: AlertRecord) -> Record:
    payload: dict[str, Any] = row.payload
    return Record(row.id, row.type, row.tenant_id, payload, row.occurred_at)
