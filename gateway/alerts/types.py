"""What crosses the borders of alerts: thresholds, what is due, records, messages. All frozen.

Amounts are integer nano-USD. A record's payload is what every receiver gets; addresses are never part of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gateway.events.types import EventType, Mail
from gateway.ledger.periods import Period

__all__ = ["Due", "Message", "Record", "SpendAlertView", "Target", "Window"]


@dataclass(frozen=True, slots=True)
class SpendAlertView:
    """A threshold, as an amount or as percent of its budget's limit, and who is told by e-mail."""

    id: str
    tenant_id: str | None
    budget_id: str | None
    threshold_nanousd: int | None
    threshold_percent: int | None
    recipients: tuple[str, ...]
    subject_prefix: str | None
    created_at: datetime

    def __post_init__(self) -> None:
        assert (self.threshold_nanousd is None) != (self.threshold_percent is None), "exactly one threshold"


@dataclass(frozen=True, slots=True)
class Window:
    """A period of one kind and zone: running, or just over (`closed_at`) and still to be judged once more."""

    period: Period
    zone: str
    key: str
    starts_at: datetime | None
    ends_at: datetime | None
    closed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Due:
    """Committed spend that has reached a threshold which has not fired yet. `subject`: the alert, or the budget."""

    type: EventType
    subject: str
    window: Window
    scope: str
    tenant_id: str | None
    key_id: str | None
    budget_id: str | None
    threshold_nanousd: int
    threshold_percent: int | None
    spent_nanousd: int
    limit_nanousd: int | None
    is_hard: bool | None
    recipients: tuple[str, ...]
    subject_prefix: str | None


@dataclass(frozen=True, slots=True)
class Record:
    """An event as it was announced."""

    id: str
    type: str
    tenant_id: str | None
    payload: Mapping[str, Any]
    occurred_at: datetime
    mail: Mail | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """Where a channel brings a record to. `key` tells targets of one record apart."""

    key: str
    address: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Message:
    """One attempt to deliver. `id` is the same on every attempt; `attempt` counts from 1, `tries` from the last replay."""

    id: str
    attempt: int
    channel: str
    target: Target
    record: Record
    tries: int = 1
