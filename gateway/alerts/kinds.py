"""The sources of alerts: what each is called outside, and how long its cause must be gone before it is over. Data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from gateway.alerts.episodes import Severity
from gateway.events import EventType

__all__ = ["KINDS", "Kind"]


@dataclass(frozen=True, slots=True)
class Kind:
    """None: recorded, and told to nobody from here."""

    firing: EventType | None
    resolved: EventType | None
    hold: timedelta
    ticket_hold: timedelta | None = None

    def hold_of(self, severity: Severity) -> timedelta:
        is_longer = severity == "ticket" and self.ticket_hold is not None
        return self.ticket_hold if is_longer and self.ticket_hold is not None else self.hold


_MINUTES = {number: timedelta(minutes=number) for number in (0, 2, 5, 10, 30)}
KINDS: Final[dict[str, Kind]] = {
    "slo.burn_rate": Kind("slo.burn_rate.firing", "slo.burn_rate.resolved", _MINUTES[5], _MINUTES[30]),
    "pool.queue_high": Kind("pool.queue_high", "pool.queue_high", _MINUTES[2]),
    "pool.kv_high": Kind("pool.kv_high", "pool.kv_high", _MINUTES[2]),
    "pool.latency_high": Kind("pool.latency_high", "pool.latency_high", _MINUTES[5]),
    "pool.preemptions_high": Kind("pool.preemptions_high", "pool.preemptions_high", _MINUTES[5]),
    # A replica that comes up and dies again is one that is down.
    "replica.down": Kind("replica.down", "replica.recovered", _MINUTES[5]),
    "replica.flapping": Kind("replica.flapping", "replica.flapping", _MINUTES[10]),
    "ledger.drift": Kind("ledger.drift", "ledger.drift", _MINUTES[10]),
    "export.failed": Kind("export.failed", None, _MINUTES[0]),
    "key.expiring": Kind("key.expiring", None, _MINUTES[0]),
    # Whoever delivers says when it gives up.
    "webhook.failing": Kind(None, None, _MINUTES[0]),
}
"""By source. Spend is announced where it is found out; its episodes are kept with the others."""
