"""Slack's documented limits and marks."""

from __future__ import annotations

import jsonschema
import orjson

from gateway.alerts.webhooks.formats.slack import slack_body
from tests.gateway.alerts.webhooks.formats.records import AT, record

# As Slack documents an incoming webhook's payload, as far as it is used here: text objects and three kinds of blocks.
PLAIN = {
    "type": "object",
    "required": ["type", "text"],
    "properties": {
        "type": {"const": "plain_text"},
        "text": {"type": "string", "minLength": 1, "maxLength": 150},
    },
}
MARKED = {
    "type": "object",
    "required": ["type", "text"],
    "properties": {
        "type": {"const": "mrkdwn"},
        "text": {"type": "string", "minLength": 1, "maxLength": 3000},
    },
}
SCHEMA = {
    "type": "object",
    "required": ["text"],
    "properties": {
        "text": {"type": "string", "minLength": 1, "maxLength": 40_000},
        "blocks": {
            "type": "array",
            "minItems": 1,
            "maxItems": 50,
            "items": {
                "oneOf": [
                    {
                        "properties": {"type": {"const": "header"}, "text": PLAIN},
                        "required": ["type", "text"],
                    },
                    {
                        "properties": {"type": {"const": "section"}, "text": MARKED},
                        "required": ["type", "text"],
                    },
                    {
                        "properties": {
                            "type": {"const": "context"},
                            "elements": {"type": "array", "items": MARKED, "minItems": 1, "maxItems": 10},
                        },
                        "required": ["type", "elements"],
                    },
                ]
            },
        },
    },
    "additionalProperties": False,
}


def test_what_the_channel_reads() -> None:
    body = orjson.loads(slack_body(record("replica.down", summary="r1 <is> down & out", replica="r1")))
    jsonschema.validate(body, SCHEMA)
    assert body["text"] == "🔴 r1 &lt;is&gt; down &amp; out"
    header, section, context = body["blocks"]
    assert header["text"]["text"] == "🔴 r1 <is> down & out", "plain text has no marks"
    assert "replica: r1" in section["text"]["text"]
    line = context["elements"][0]["text"]
    assert line.startswith(f"replica.down · the organization · <!date^{int(AT.timestamp())}^")
    assert line.endswith("|2026-11-30 12:34:56 UTC>")


def test_an_end_is_good_news_however_bad_it_was() -> None:
    for kind, state in (("replica.recovered", None), ("pool.kv_high", "resolved")):
        body = orjson.loads(slack_body(record(kind, severity="page", state=state, summary="over")))
        assert body["text"] == "🟢 over"


def test_long_texts_fit_and_no_mark_is_cut_in_two() -> None:
    body = orjson.loads(slack_body(record("ledger.drift", "proj_a", summary="s" * 500, notes="&" * 9000)))
    jsonschema.validate(body, SCHEMA)
    text = body["blocks"][1]["text"]["text"]
    assert text.endswith("&amp;…")
    assert 2900 < len(text) <= 3000
    jsonschema.validate(orjson.loads(slack_body(record("ledger.drift"))), SCHEMA)
