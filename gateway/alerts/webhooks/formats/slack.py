"""Slack's incoming webhooks: a text for notifications, and blocks for the channel.

Slack reads `&`, `<` and `>` as its own marks, and refuses headers over 150 and sections over 3,000 characters.
"""

from __future__ import annotations

import orjson

from gateway.alerts.types import Record
from gateway.alerts.webhooks.formats.story import Severity, story_of

__all__ = ["slack_body"]

HEADER_CHARS_MAX = 150
SECTION_CHARS_MAX = 3000
SIGNS: dict[Severity, str] = {"page": "🔴", "ticket": "🟠", "info": "🟢"}


def slack_body(record: Record) -> bytes:
    story = story_of(record)
    title = f"{SIGNS['info' if story.is_end else story.severity]} {story.summary}"
    where = f"project {record.tenant_id}" if record.tenant_id is not None else "the organization"
    return orjson.dumps(
        {
            "text": _escaped(title),
            "blocks": [
                {"type": "header", "text": {"type": "plain_text", "text": _cut(title, HEADER_CHARS_MAX)}},
                {"type": "section", "text": {"type": "mrkdwn", "text": _fitting(story.details)}},
                {
                    "type": "context",
                    "elements": [{"type": "mrkdwn", "text": f"{record.type} · {where} · {_date(record)}"}],
                },
            ],
        }
    )


def _date(record: Record) -> str:
    """In the reader's zone; the text after the bar is for clients that cannot."""
    at = record.occurred_at
    return f"<!date^{int(at.timestamp())}^{{date_num}} {{time_secs}}|{at:%Y-%m-%d %H:%M:%S} UTC>"


def _fitting(text: str) -> str:
    """Cut between characters before their marks are written out, so that none of those is cut in two."""
    shown = ""
    for one in map(_escaped, text.strip() or "-"):
        if len(shown) + len(one) >= SECTION_CHARS_MAX:
            return f"{shown}…"
        shown += one
    return shown


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
