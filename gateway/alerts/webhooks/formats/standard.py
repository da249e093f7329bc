"""The generic body: OpenAI's event object, with the time as text and the project beside it."""

from __future__ import annotations

from datetime import UTC

import orjson

from gateway.alerts.types import Record

__all__ = ["standard_body"]


def standard_body(record: Record) -> bytes:
    return orjson.dumps(
        {
            "id": record.id,
            "object": "event",
            "type": record.type,
            "created_at": int(record.occurred_at.timestamp()),
            "timestamp": record.occurred_at.astimezone(UTC).isoformat(),
            "project_id": record.tenant_id,
            "data": dict(record.payload),
        }
    )
