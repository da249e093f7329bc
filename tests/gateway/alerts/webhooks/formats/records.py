"""Events for the formats' tests."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from gateway.alerts.types import Record

__all__ = ["AT", "record"]

AT = datetime(2026, 11, 30, 12, 34, 56, 789000, tzinfo=UTC)


def record(kind: str, tenant_id: str | None = None, **payload: Any) -> Record:
    return Record("evt_1", kind, tenant_id, payload, AT)
