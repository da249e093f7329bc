"""Samples: each event has one that every format can tell."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson

from gateway.alerts.webhooks.formats import body_of
from gateway.alerts.webhooks.samples import sample_of
from gateway.alerts.webhooks.types import FORMATS
from gateway.events import EVENT_TYPES


def test_every_event_can_be_tried_in_every_format() -> None:
    for event_type in EVENT_TYPES:
        sample = sample_of(event_type, "test_1", None, datetime(2026, 11, 30, tzinfo=UTC))
        assert sample.payload["test"] is True
        for name in FORMATS:
            assert orjson.loads(body_of(name, sample, "r" * 32))
