"""Places in the list as text and back."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from gateway.http.admin.cursor import cursor_of, cursor_text
from gateway.ledger.repository.requests import EventCursor

PLACE = EventCursor(datetime(2026, 3, 29, 1, 2, 3, 456_789, tzinfo=UTC), UUID(int=1 << 90))


def test_there_and_back() -> None:
    assert cursor_of("evt_", cursor_text("evt_", PLACE)) == PLACE


@pytest.mark.parametrize(
    "text",
    ["", "evt_", "evt_1_2_3", "1_" + "0" * 32, "evt_+1_" + "0" * 32, "evt_" + "f" * 40 + "_" + "0" * 32],
)
def test_what_is_no_place(text: str) -> None:
    assert cursor_of("evt_", text) is None
