"""What receivers for people ask of any event: one sentence, how bad it is, and what it begins or ends. Pure.

A payload may say so itself, as `summary`, `severity` (page, ticket, info) and `incident`, which is the same in the event
that begins something and in the one that ends it; where both have one type, `state` tells them apart. Without them, this is what the type says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from gateway.alerts.letters import letter_of
from gateway.alerts.types import Record

__all__ = ["Severity", "Story", "story_of"]

Severity = Literal["page", "ticket", "info"]
_SEVERITIES: Final[dict[str, Severity]] = {
    "ledger.drift": "page",
    "replica.down": "page",
    "pool.kv_high": "page",
    "pool.queue_high": "page",
    "slo.burn_rate.firing": "page",
    "batch.cancelled": "info",
    "batch.completed": "info",
    "export.finished": "info",
    "replica.recovered": "info",
    "slo.burn_rate.resolved": "info",
}
"""The others are tickets."""
_ENDS: Final = ("slo.burn_rate.resolved", "replica.recovered")


@dataclass(frozen=True, slots=True)
class Story:
    """`incident` is the same for what ends something as for what began it; `details` is a plain text."""

    summary: str
    details: str
    severity: Severity
    incident: str
    is_end: bool


def story_of(record: Record) -> Story:
    payload, letter = record.payload, letter_of(record)
    severity = payload.get("severity")
    incident = payload.get("incident")
    return Story(
        letter.subject,
        letter.text,
        severity if severity in ("page", "ticket", "info") else _SEVERITIES.get(record.type, "ticket"),
        incident if isinstance(incident, str) and incident else record.id,
        record.type in _ENDS or payload.get("state") == "resolved",
    )
