"""PagerDuty's documented shape of an event, and what begins and ends an incident."""

from __future__ import annotations

from typing import Any

import jsonschema
import orjson

from gateway.alerts.webhooks.formats.pagerduty import pagerduty_body
from tests.gateway.alerts.webhooks.formats.records import record

KEY = "0123456789abcdef0123456789ABCDEF"
# As PagerDuty documents Events API v2.
SCHEMA = {
    "type": "object",
    "required": ["routing_key", "event_action", "payload"],
    "properties": {
        "routing_key": {"type": "string", "minLength": 32, "maxLength": 32},
        "event_action": {"enum": ["trigger", "acknowledge", "resolve"]},
        "dedup_key": {"type": "string", "maxLength": 255},
        "client": {"type": "string"},
        "client_url": {"type": "string"},
        "links": {"type": "array"},
        "images": {"type": "array"},
        "payload": {
            "type": "object",
            "required": ["summary", "source", "severity"],
            "properties": {
                "summary": {"type": "string", "minLength": 1, "maxLength": 1024},
                "source": {"type": "string", "minLength": 1},
                "severity": {"enum": ["critical", "error", "warning", "info"]},
                "timestamp": {
                    "type": "string",
                    "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$",
                },
                "component": {"type": "string"},
                "group": {"type": "string"},
                "class": {"type": "string"},
                "custom_details": {"type": "object"},
            },
            "additionalProperties": False,
        },
    },
    "additionalProperties": False,
}


def event(kind: str, tenant: str | None = None, **payload: Any) -> Any:
    body = orjson.loads(pagerduty_body(record(kind, tenant, **payload), KEY))
    jsonschema.validate(body, SCHEMA)
    return body


def test_an_incident_begins_and_ends() -> None:
    firing = event("slo.burn_rate.firing", "proj_a", incident="ep_1", severity="page", summary="x" * 2000)
    resolved = event("slo.burn_rate.resolved", "proj_a", incident="ep_1")
    assert (firing["event_action"], resolved["event_action"]) == ("trigger", "resolve")
    assert firing["dedup_key"] == resolved["dedup_key"] == "ep_1"
    assert firing["payload"]["severity"] == "critical"
    assert firing["payload"]["source"] == "proj_a"
    assert firing["payload"]["custom_details"]["event_id"] == "evt_1"


def test_what_is_told_once_is_an_incident_of_its_own() -> None:
    drift = event("ledger.drift", nanousd=7)
    assert (drift["routing_key"], drift["dedup_key"], drift["payload"]["source"]) == (KEY, "evt_1", "tollway")
    assert drift["payload"]["custom_details"]["nanousd"] == 7
    assert len(event("ledger.drift", incident="i" * 999)["dedup_key"]) == 255
