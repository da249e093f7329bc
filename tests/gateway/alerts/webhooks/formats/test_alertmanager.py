"""Alertmanager's documented shape of `postableAlerts`. `make alertmanager` sends them to a real one."""

from __future__ import annotations

from typing import Any

import jsonschema
import orjson

from gateway.alerts.webhooks.formats.alertmanager import alertmanager_body
from tests.gateway.alerts.webhooks.formats.records import record

LABELS = {
    "type": "object",
    "propertyNames": {"pattern": "^[a-zA-Z_][a-zA-Z0-9_]*$"},
    "additionalProperties": {"type": "string"},
}
TIME = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$"}
# As its OpenAPI document, version 2, says.
SCHEMA = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["labels"],
        "properties": {
            "labels": {**LABELS, "minProperties": 1},
            "annotations": LABELS,
            "startsAt": TIME,
            "endsAt": TIME,
            "generatorURL": {"type": "string", "format": "uri"},
        },
        "additionalProperties": False,
    },
}


def alert(kind: str, tenant: str | None = None, **payload: Any) -> Any:
    body = orjson.loads(alertmanager_body(record(kind, tenant, **payload)))
    jsonschema.validate(body, SCHEMA)
    [found] = body
    return found


def test_an_end_has_the_labels_of_its_beginning() -> None:
    for begins, ends in (
        ("slo.burn_rate.firing", "slo.burn_rate.resolved"),
        ("replica.down", "replica.recovered"),
    ):
        tenant = "proj_a" if begins.startswith("slo") else None
        firing, resolved = alert(begins, tenant, incident="i1", n=1), alert(ends, tenant, incident="i1")
        assert firing["labels"] == resolved["labels"]
        assert firing["labels"]["alertname"] == begins
        assert ("endsAt" in firing, "endsAt" in resolved) == (False, True)
        assert firing["annotations"]["severity"] == "critical"


def test_what_is_told_once() -> None:
    drift = alert("ledger.drift", nanousd=7)
    assert drift["labels"] == {"alertname": "ledger.drift", "incident": "evt_1", "service": "tollway"}
    assert drift["annotations"]["description"] == "nanousd: 7"
    assert drift["startsAt"] == "2026-11-30T12:34:56.789000+00:00"
