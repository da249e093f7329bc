"""Books that differ, exports that failed, keys about to expire, endpoints that take nothing. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from gateway.alerts.episodes import Signal

__all__ = [
    "EXPIRING",
    "ExpiringKey",
    "FailedExport",
    "FailingEndpoint",
    "drift_signals",
    "endpoint_signals",
    "export_signals",
    "key_signals",
]

EXPIRING: Final = timedelta(days=7)
LIFETIME_SHARE: Final = 4
"""A key that is made for a day is not about to expire when it is made: only in the last quarter of its life."""


@dataclass(frozen=True, slots=True)
class FailedExport:
    """Nobody will try it again, and none of its period and format has succeeded since."""

    id: str
    format: str
    period_start: str
    period_end: str
    tenant_id: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class ExpiringKey:
    """`tenant_id` None: an administrator's."""

    id: str
    tenant_id: str | None
    name: str
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class FailingEndpoint:
    """A webhook endpoint that was disabled because it takes nothing, or with a delivery that has failed `attempts` times and
    is still being tried."""

    id: str
    tenant_id: str | None
    name: str
    disabled_reason: str | None
    attempts: int | None


def drift_signals(differences: Mapping[str, int | None]) -> list[Signal] | None:
    """By which comparison: how much it found. None while none of them was made."""
    if all(found is None for found in differences.values()):
        return None
    return [
        Signal(
            name,
            "page",
            "between" if found is None else "firing" if found else "quiet",
            {"difference": found},
        )
        for name, found in differences.items()
    ]


def export_signals(failed: Sequence[FailedExport]) -> list[Signal]:
    return [
        Signal(
            one.id,
            "ticket",
            "firing",
            {
                "export_id": one.id,
                "format": one.format,
                "period_start": one.period_start,
                "period_end": one.period_end,
                "of_project_id": one.tenant_id,
                "error": one.error,
            },
        )
        for one in failed
    ]


def key_signals(keys: Sequence[ExpiringKey], now: datetime) -> list[Signal]:
    return [
        Signal(
            one.id,
            "ticket",
            "firing",
            {"key_id": one.id, "name": one.name, "expires_at": int(one.expires_at.timestamp())},
            one.tenant_id,
        )
        for one in keys
        if now < one.expires_at <= now + min(EXPIRING, (one.expires_at - one.created_at) / LIFETIME_SHARE)
    ]


def endpoint_signals(failing: Sequence[FailingEndpoint]) -> list[Signal]:
    return [
        Signal(
            one.id,
            "ticket",
            "firing",
            {
                "endpoint_id": one.id,
                "name": one.name,
                "disabled_reason": one.disabled_reason,
                "attempts": one.attempts,
            },
            one.tenant_id,
        )
        for one in failing
    ]
