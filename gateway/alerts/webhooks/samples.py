"""A sample of each event, for a test of an endpoint: shaped like a real one, and marked as none."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gateway.alerts.types import Record

__all__ = ["sample_of"]

_SPEND: Mapping[str, Any] = {
    "alert_id": "alert_test",
    "budget_id": "budget_test",
    "scope": "tenant",
    "key_id": None,
    "period": {"kind": "monthly", "id": "2026-01", "starts_at": 1767225600, "ends_at": 1769904000},
    "threshold_nanousd": 80_000_000_000,
    "threshold_percent": 80,
    "spent_nanousd": 81_000_000_000,
    "limit_nanousd": 100_000_000_000,
    "is_hard": True,
}


def sample_of(event_type: str, message_id: str, tenant_id: str | None, now: datetime) -> Record:
    """Every sample's payload has `test: true`, which no real event has."""
    payload: dict[str, Any] = {"test": True}
    if event_type.startswith("batch."):
        payload |= {"id": "batch_test"}
    elif event_type.startswith("budget."):
        payload |= {**_SPEND, "project_id": tenant_id or "proj_test"}
    else:
        payload |= {"summary": f"This is a test of {event_type}."}
    return Record(f"evt_{message_id}", event_type, tenant_id, payload, now)
