"""Alertmanager's API v2, `POST …/api/v2/alerts`: a list with one alert, whose labels say which one it is.

An alert ends when one with the same labels comes with an end. One that nothing ends is let go by Alertmanager after its
`resolve_timeout`, so what is told once shows for that long.
"""

from __future__ import annotations

import re
from datetime import UTC
from typing import Any

import orjson

from gateway.alerts.types import Record
from gateway.alerts.webhooks.formats.story import story_of

__all__ = ["alertmanager_body"]

SEVERITIES = {"page": "critical", "ticket": "warning", "info": "info"}
_RESOLVED = re.compile(r"\.(resolved|recovered)$")
_BEGINNING = {"resolved": ".firing", "recovered": ".down"}


def alertmanager_body(record: Record) -> bytes:
    """The labels of an end are those of its beginning: the severity is an annotation, since it may differ."""
    story = story_of(record)
    at = record.occurred_at.astimezone(UTC).isoformat()
    labels = {
        "alertname": _RESOLVED.sub(lambda found: _BEGINNING[found[1]], record.type),
        "incident": story.incident,
        "service": "tollway",
        **({"project": record.tenant_id} if record.tenant_id is not None else {}),
    }
    alert: dict[str, Any] = {
        "labels": labels,
        "annotations": {
            "summary": story.summary,
            "description": story.details.strip(),
            "severity": SEVERITIES[story.severity],
            "event_id": record.id,
        },
        "startsAt": at,
    }
    return orjson.dumps([{**alert, "endsAt": at} if story.is_end else alert])
