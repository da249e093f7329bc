"""The events that there are, and what one says. Pure; it does not know who listens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, Literal, get_args

__all__ = ["EVENT_TYPES", "TENANT_EVENT_TYPES", "Event", "EventType", "Mail"]

# The names of batches' events, and what they hold, are OpenAI's.
TenantEventType = Literal[
    "batch.cancelled",
    "batch.completed",
    "batch.expired",
    "batch.failed",
    "budget.exhausted",
    "budget.threshold_reached",
    "key.expiring",
    "slo.burn_rate.firing",
    "slo.burn_rate.resolved",
    "webhook_endpoint.disabled",
]
OperatorEventType = Literal[
    "export.failed",
    "export.finished",
    "ledger.drift",
    "pool.kv_high",
    "pool.latency_high",
    "pool.preemptions_high",
    "pool.queue_high",
    "replica.down",
    "replica.flapping",
    "replica.recovered",
]
EventType = TenantEventType | OperatorEventType

TENANT_EVENT_TYPES: Final[tuple[str, ...]] = get_args(TenantEventType)
"""Those that may concern one tenant, and that a tenant's own endpoints may ask for."""
EVENT_TYPES: Final[tuple[str, ...]] = (*TENANT_EVENT_TYPES, *get_args(OperatorEventType))
ID_CHARS = 32


@dataclass(frozen=True, slots=True)
class Mail:
    """Who is told of an event by e-mail."""

    recipients: tuple[str, ...]
    subject_prefix: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened once.

    `key` tells it from every other event of its type and tenant: whoever announces the same thing again, after a
    crash or on another worker, gives the same key. `tenant_id` None: it is the organisation's. The payload is what
    every receiver gets, some of them outside: no secret, no address, nothing of other tenants; amounts are integers
    in nano-USD, times are Unix seconds.
    """

    type: EventType
    tenant_id: str | None
    key: str
    payload: Mapping[str, Any]
    occurred_at: datetime
    mail: Mail | None = None

    def __post_init__(self) -> None:
        assert self.type in EVENT_TYPES, self.type
        assert self.tenant_id is None or self.type in TENANT_EVENT_TYPES, "the organisation's own business"

    @property
    def id(self) -> str:
        """The same for the same event, whoever says it."""
        name = "\0".join((self.type, self.tenant_id or "", self.key))
        return f"evt_{sha256(name.encode()).hexdigest()[:ID_CHARS]}"
