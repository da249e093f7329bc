"""The generic body, as OpenAI's client reads it."""

from __future__ import annotations

import orjson
from openai._models import construct_type, validate_type
from openai.types.webhooks import BatchCompletedWebhookEvent

from gateway.alerts.webhooks.formats.standard import standard_body
from tests.gateway.alerts.webhooks.formats.records import AT, record


def test_an_event_object() -> None:
    body = orjson.loads(standard_body(record("batch.completed", "proj_a", id="batch_1", n=2**53 + 1)))
    event = validate_type(type_=BatchCompletedWebhookEvent, value=body)
    assert (event.id, event.data.id, event.object) == ("evt_1", "batch_1", "event")
    assert event.created_at == int(AT.timestamp())
    assert body["timestamp"] == "2026-11-30T12:34:56.789000+00:00"
    assert body["project_id"] == "proj_a"
    assert body["data"]["n"] == 2**53 + 1
    assert construct_type(type_=BatchCompletedWebhookEvent, value=body) == event
