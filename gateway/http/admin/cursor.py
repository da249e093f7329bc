"""Places in the list of events as text: both parts of the table's key, so that a page begins without a look-up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from gateway.ledger.repository.requests import EventCursor

__all__ = ["cursor_of", "cursor_text"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def cursor_text(prefix: str, cursor: EventCursor) -> str:
    micros = (cursor.occurred_at - _EPOCH) // timedelta(microseconds=1)
    return f"{prefix}{micros:x}_{cursor.event_id.hex}"


def cursor_of(prefix: str, text: str) -> EventCursor | None:
    """None if that is no place of ours."""
    try:
        micros, event_id = text.removeprefix(prefix).split("_")
        found = EventCursor(_EPOCH + timedelta(microseconds=int(micros, 16)), UUID(event_id))
    except (ValueError, OverflowError):
        return None
    return found if cursor_text(prefix, found) == text else None
