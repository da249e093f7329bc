"""The request list's search: bounded slices, jumps by the rollups, nothing missed and nothing twice."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from gateway.db import Database
from gateway.ledger.repository import requests as module
from gateway.ledger.repository.requests import EventCursor, RequestFilter, RequestReader
from tests.gateway.usage_events import settled, write
from tests.seeds import seed_of_test

MIDNIGHT = datetime(2026, 3, 29, tzinfo=UTC)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = Database(database_url, name="test", pool_size=1)
    yield opened
    await opened.close()


async def _walk(database: Database, wanted: RequestFilter, limit: int) -> tuple[list[str], int]:
    """The ids of all pages, and how many pages there were."""
    found: list[str] = []
    before: EventCursor | None = None
    for pages in range(1, 1_000):
        async with database.read() as session:
            page = await RequestReader().page(session, wanted, before, limit)
        assert len(page.events) <= limit
        found += [event.request_id for event in page.events]
        if page.next is None:
            return found, pages
        assert before is None or page.next < before, "every page comes further"
        before = page.next
    raise AssertionError("the list does not end")


async def test_any_search_finds_each_once(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Duty C23: with slices of a few events, so that every search jumps, random filters find what they should."""
    monkeypatch.setattr(module, "SLICE", 7)
    monkeypatch.setattr(module, "SLICES_MAX", 2)
    seed = seed_of_test()
    draw = random.Random(seed)
    choices = {
        "tenant_id": ("proj_a", "proj_a", "proj_b"),
        "key_id": ("key_a", "key_b", "key_b"),
        "served_model": ("tiny", "tiny", "tiny", "rare"),
        "pool_id": ("pool_a", "pool_b"),
        "request_class": ("interactive", "batch"),
        "user_ref": (None, "u1"),
        "is_stream": (True, False),
    }
    settlements = []
    for number in range(120):
        asked = {name: draw.choice(values) for name, values in choices.items()}
        at = MIDNIGHT + timedelta(minutes=draw.randrange(4 * 1_440))
        settlements.append(settled(number, at, asked=asked, status=draw.choice(("ok", "ok", "ok", "error"))))
    events = await write(database, settlements)
    events.sort(key=lambda event: (event["occurred_at"], event["event_id"]), reverse=True)
    for _ in range(14):
        names = draw.sample([*choices, "status"], draw.randrange(4))
        one = draw.choice(events)
        values = {name: one[name] for name in names if one[name] is not None}
        expected = [
            e["request_id"] for e in events if all(e[name] == value for name, value in values.items())
        ]
        status = values.pop("status", None)
        wanted = RequestFilter(**values, statuses=[status] if status else None)
        assert (await _walk(database, wanted, draw.choice((4, 100))))[0] == expected, wanted


async def test_a_rare_filter_jumps_over_what_it_does_not_want(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty days of noise between two hits: two slices of noise are read, not thirty days."""
    monkeypatch.setattr(module, "SLICE", 20)
    noise = [settled(number, MIDNIGHT + timedelta(hours=number)) for number in range(1, 720)]
    hits = [
        settled(1_000 + day, MIDNIGHT + timedelta(days=day), asked={"served_model": "rare"})
        for day in (0, 29)
    ]
    await write(database, noise + hits)
    found, pages = await _walk(database, RequestFilter(served_model="rare"), 10)
    assert found == ["req_001029", "req_001000"]
    assert pages == 1
    assert await _walk(database, RequestFilter(served_model="none"), 10) == ([], 1)
    start = MIDNIGHT + timedelta(hours=1)
    assert await _walk(database, RequestFilter(served_model="rare", start=start), 10) == (["req_001029"], 1)
