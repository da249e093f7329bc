"""PagerDuty's Events API v2: an event triggers an incident, and the one that ends it resolves the same."""

from __future__ import annotations

from datetime import UTC

import orjson

from gateway.alerts.types import Record
from gateway.alerts.webhooks.formats.story import Severity, story_of

__all__ = ["EVENTS_URL", "pagerduty_body"]

EVENTS_URL = "https://events.pagerduty.com/v2/enqueue"
DEDUP_CHARS_MAX = 255
SUMMARY_CHARS_MAX = 1024
SEVERITIES: dict[Severity, str] = {"page": "critical", "ticket": "warning", "info": "info"}


def pagerduty_body(record: Record, routing_key: str) -> bytes:
    story = story_of(record)
    event = {
        "routing_key": routing_key,
        "event_action": "resolve" if story.is_end else "trigger",
        "dedup_key": story.incident[:DEDUP_CHARS_MAX],
        "client": "Tollway",
        "payload": {
            "summary": story.summary[:SUMMARY_CHARS_MAX],
            "source": record.tenant_id or "tollway",
            "severity": SEVERITIES[story.severity],
            "timestamp": record.occurred_at.astimezone(UTC).isoformat(),
            "class": record.type,
            "custom_details": {"event_id": record.id, **record.payload},
        },
    }
    return orjson.dumps(event)
