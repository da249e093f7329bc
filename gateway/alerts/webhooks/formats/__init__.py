"""An event as each kind of receiver wants to read it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gateway.alerts.types import Record
from gateway.alerts.webhooks.formats.alertmanager import alertmanager_body
from gateway.alerts.webhooks.formats.pagerduty import pagerduty_body
from gateway.alerts.webhooks.formats.slack import slack_body
from gateway.alerts.webhooks.formats.standard import standard_body
from gateway.alerts.webhooks.types import Format

__all__ = ["body_of"]

_BODIES: Final[Mapping[Format, Callable[[Record, str], bytes]]] = {
    "standard": lambda record, _: standard_body(record),
    "slack": lambda record, _: slack_body(record),
    "pagerduty": pagerduty_body,
    "alertmanager": lambda record, _: alertmanager_body(record),
}


def body_of(format: Format, record: Record, routing_key: str | None) -> bytes:
    """`routing_key` is PagerDuty's and nobody else's."""
    return _BODIES[format](record, routing_key or "")
