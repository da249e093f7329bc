"""An endpoint, and what may be asked of it. Frozen."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, get_args
from urllib.parse import urlsplit

from gateway.ids import TenantId

__all__ = ["FORMATS", "Change", "Endpoint", "Format", "NewEndpoint", "shown_url"]

Format = Literal["standard", "slack", "pagerduty", "alertmanager"]
SHOWN_CHARS = 4
FORMATS: Final[tuple[Format, ...]] = get_args(Format)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`tenant_id` None: the operator's, which hears of every tenant."""

    id: str
    tenant_id: TenantId | None
    name: str
    url: str
    event_types: tuple[str, ...]
    format: Format
    secrets_sealed: bytes = field(repr=False)
    secret_hint: str
    paused_until: datetime | None
    disabled_at: datetime | None
    disabled_reason: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class NewEndpoint:
    """What is asked for. `routing_key`: what PagerDuty knows its service by; no other format has one."""

    tenant_id: TenantId | None
    name: str
    url: str
    event_types: tuple[str, ...]
    format: Format = "standard"
    routing_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Change:
    """What is None stays."""

    name: str | None = None
    url: str | None = None
    event_types: tuple[str, ...] | None = None
    routing_key: str | None = field(default=None, repr=False)


def shown_url(endpoint: Endpoint) -> str:
    """Whoever has an address of Slack's can write there: after it was given it is told apart by its end alone."""
    if endpoint.format != "slack":
        return endpoint.url
    where = urlsplit(endpoint.url)
    return f"{where.scheme}://{where.netloc}/…{endpoint.url[-SHOWN_CHARS:]}"
