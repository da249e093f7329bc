"""The reader against a recompute from the events, over random events, ranges, widths, groups and filters."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gateway.db import Database
from gateway.ledger.buckets import WIDTH_S, Width, bucket_page
from gateway.ledger.repository.settling import EventRow
from gateway.ledger.repository.usage import (
    DIMENSIONS,
    Dimension,
    UsageFilter,
    UsageReader,
    UsageRow,
    UsageSums,
)
from tests.gateway.usage_events import correct, settled, write
from tests.seeds import seed_of_test

MIDNIGHT = datetime(2026, 10, 25, tzinfo=UTC)
START = int(MIDNIGHT.timestamp())
ROUNDS = 60
ANY = 1_000_000


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = Database(database_url, name="test", pool_size=1)
    yield opened
    await opened.close()


async def _random_events(database: Database, draw: random.Random) -> list[EventRow]:
    settlements = [
        settled(
            number,
            MIDNIGHT + timedelta(seconds=draw.randrange(3 * 86_400)),
            tokens=(prompt := draw.randrange(1_000), draw.randrange(prompt + 1), draw.randrange(100)),
            asked={
                "tenant_id": draw.choice(("proj_a", "proj_b")),
                "key_id": draw.choice(("key_a", "key_b", "key_c")),
                "served_model": draw.choice(("tiny", "large")),
                "pool_id": draw.choice(("pool_a", "pool_b")),
                "endpoint": draw.choice(("chat.completions", "embeddings")),
                "request_class": draw.choice(("interactive", "batch")),
                "user_ref": draw.choice((None, "u1", "u2")),
            },
            status=draw.choice(("ok", "partial", "cancelled")),
        )
        for number in range(300)
    ]
    events = await write(database, settlements)
    for event in draw.sample(events, 20):
        events.append(await correct(database, event, completion_tokens=-1, output_nanousd=-400))
    return events


def _recomputed(
    events: Sequence[EventRow], start: int, end: int, width: Width, wanted: Any, group_by: Sequence[Dimension]
) -> list[UsageRow]:
    sums: dict[tuple[int, tuple[Any, ...]], UsageSums] = defaultdict(UsageSums)
    for event in events:
        at = int(event["occurred_at"].timestamp())
        if not start <= at < end or not wanted(event):
            continue
        bucket = max(start, at // WIDTH_S[width] * WIDTH_S[width])
        values = {
            **event,
            "is_batch": event["request_class"] == "batch",
            "requests": int(event["corrects"] is None),
        }
        key = bucket, tuple(values[name] for name in group_by)
        sums[key] += UsageSums(*(values[name] for name in UsageSums.__dataclass_fields__))
    return [
        UsageRow(*key, sums[key])
        for key in sorted(sums, key=lambda key: (key[0], [(value is None, value) for value in key[1]]))
    ]


async def test_reading_equals_recomputing(database: Database) -> None:
    """Duty A9: what the rollups answer is what the events add up to, corrections included, for any question."""
    seed = seed_of_test()
    draw = random.Random(seed)
    events = await _random_events(database, draw)
    filters: list[tuple[UsageFilter, Any]] = [
        (UsageFilter(), lambda event: True),
        (UsageFilter(tenant_ids=["proj_b"]), lambda event: event["tenant_id"] == "proj_b"),
        (UsageFilter(key_ids=["key_a", "key_c"]), lambda event: event["key_id"] != "key_b"),
        (UsageFilter(served_models=["tiny"], is_batch=True), lambda event: event["served_model"] == "tiny" and event["request_class"] == "batch"),
        (UsageFilter(is_embeddings=False, statuses=["ok"]), lambda event: event["endpoint"] != "embeddings" and event["status"] == "ok"),
        (UsageFilter(pool_ids=["pool_a"], is_batch=False), lambda event: event["pool_id"] == "pool_a" and event["request_class"] != "batch"),
        (UsageFilter(user_refs=["u1"]), lambda event: event["user_ref"] == "u1"),
        (UsageFilter(request_classes=[]), lambda event: False),
    ]  # fmt: skip
    reader = UsageReader()
    for _ in range(ROUNDS):
        width: Width = draw.choice(("1m", "1h", "1d"))
        start = START + draw.randrange(3 * 1_440) * 60
        end = start + draw.randrange(1, 2 * 1_440) * 60
        group_by = tuple(draw.sample(DIMENSIONS, draw.randrange(4)))
        wanted, matches = draw.choice(filters)
        page = bucket_page(start, end, width, 10_000)
        async with database.read() as session:
            found = await reader.buckets(session, page.buckets, width, wanted, group_by, ANY)
        assert found == _recomputed(events, start, end, width, matches, group_by), (
            start,
            end,
            width,
            group_by,
        )


async def test_rows_are_capped(database: Database) -> None:
    await write(database, [settled(number, MIDNIGHT + timedelta(minutes=number)) for number in range(5)])
    page = bucket_page(START, START + 600, "1m", 10)
    async with database.read() as session:
        rows = await UsageReader().buckets(session, page.buckets, "1m", UsageFilter(), (), 3)
    assert [row.bucket for row in rows] == [START, START + 60, START + 120]
