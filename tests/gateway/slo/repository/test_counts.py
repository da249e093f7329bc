"""Counted in the database: exactly once, in the right minute, whoever counts and whenever it becomes known."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gateway.db import Database, WriteConnection
from gateway.ledger.batcher import commit_batch
from gateway.ledger.types import Timings
from gateway.slo.repository.counts import count_refusals, recount
from gateway.slo.repository.objectives import ObjectiveRepository, all_objectives
from gateway.slo.types import Sums
from tests.gateway.books import Books, books
from tests.gateway.slo.test_matching import objective
from tests.gateway.usage_events import correct, fold_all, settled, write
from tests.seeds import seed_of_test

__all__ = ["books"]

AT = datetime(2026, 11, 20, 12, 30, 30, tzinfo=UTC)
FAST, SLOW = (
    Timings(ttft_ms=500, e2e_ms=1_000, tpot_us=20_000),
    Timings(ttft_ms=900, e2e_ms=9_000, tpot_us=50_000),
)
STREAM = {"is_stream": True}


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """With the application's rights."""
    database = Database(database_url, name="test-counts", pool_size=4)
    yield database
    await database.close()


async def sums(books: Books, unit: str, sli: str = "availability") -> dict[datetime, Sums]:
    rows = await books.rows(
        f"SELECT bucket, sum(good)::bigint, sum(total)::bigint FROM slo_{unit} WHERE sli = :sli AND tenant_id <> '*' GROUP BY 1",
        sli=sli,
    )
    return {row[0]: Sums(row[1], row[2]) for row in rows}


async def _count(connection: WriteConnection, limits: list[int]) -> list[int]:
    return [await count_refusals(connection, limit) for limit in limits]


async def refuse(books: Books, requests: int, at: datetime = AT, **fields: Any) -> None:
    """So many in all, by one run of one gateway."""
    values = {
        "gateway": "gw",
        "run": "run_1",
        "tenant": "proj_a",
        "model": "tiny",
        "reason": "server_is_overloaded",
    }
    await books.run(
        "INSERT INTO refusal_minute (bucket, gateway_id, instance_id, tenant_id, key_id, served_model, reason, requests)"
        " VALUES (:bucket, :gateway, :run, :tenant, 'key', :model, :reason, :requests)"
        " ON CONFLICT (bucket, gateway_id, instance_id, tenant_id, key_id, served_model, reason)"
        " DO UPDATE SET requests = greatest(refusal_minute.requests, EXCLUDED.requests)",
        bucket=at.replace(second=0, microsecond=0),
        requests=requests,
        **(values | fields),
    )


async def count_all(database: Database) -> None:
    results = await commit_batch(database, [100], _count)
    assert not isinstance(results[0], Exception), results


async def test_a_late_settlement_counts_in_its_own_minute(books: Books, database: Database) -> None:
    late = AT - timedelta(hours=30)
    await write(database, [settled(1, AT, asked=STREAM, timings=FAST)])
    await write(database, [settled(2, late, asked=STREAM, timings=SLOW)])
    minutes = [one.replace(second=0) for one in (late, AT)]
    assert await sums(books, "minute") == dict.fromkeys(minutes, Sums(1, 1))
    assert await sums(books, "minute", "ttft") == dict(zip(minutes, (Sums(0, 1), Sums(1, 1)), strict=True))
    assert len(await sums(books, "day", "ttft")) == 2


async def test_what_fell_into_a_closed_period_counts_when_it_happened(
    books: Books, database: Database
) -> None:
    """Its event is an adjustment in the open period."""
    await write(database, [settled(1, AT)], fold=False)
    await books.run("UPDATE usage_event SET late_from = occurred_at - interval '40 days'")
    await fold_all(database)
    assert list(await sums(books, "minute")) == [AT.replace(second=0) - timedelta(days=40)]


async def test_a_correction_of_the_price_is_no_second_request(books: Books, database: Database) -> None:
    (event,) = await write(database, [settled(1, AT)])
    await correct(database, event, completion_tokens=7, output_nanousd=2_800)
    assert list((await sums(books, "minute")).values()) == [Sums(1, 1)]


async def test_hours_days_and_histograms_are_sums_of_the_minutes(books: Books, database: Database) -> None:
    """Equal to a recount from the events themselves, in whatever order they were folded."""
    seed = seed_of_test()
    draw = random.Random(seed)
    wanted = [
        settled(
            number,
            AT + timedelta(seconds=draw.randrange(2 * 86_400)),
            asked={"is_stream": draw.random() < 0.8, "served_model": draw.choice(["m1", "m2"])},
            status=draw.choice(["ok", "ok", "ok", "partial", "error", "cancelled"]),
            timings=Timings(
                ttft_ms=draw.randrange(2_000), e2e_ms=draw.randrange(60_000), tpot_us=draw.randrange(90_000)
            ),
        )
        for number in range(300)
    ]
    await write(database, wanted)
    truth = await books.rows(
        "SELECT date_trunc('day', occurred_at, 'UTC'), count(*) FILTER (WHERE ttft_ms <= 800), count(*)"
        " FROM usage_event WHERE is_stream AND status <> 'cancelled' GROUP BY 1 ORDER BY 1"
    )
    assert truth
    assert await sums(books, "day", "ttft") == {row[0]: Sums(row[1], row[2]) for row in truth}
    for unit in ("hour", "day"):
        for table, value in (("slo", "good, total"), ("latency", "ttft")):
            whole = f"SELECT jsonb_agg(to_jsonb(t)) FROM (SELECT {value} FROM {table}_{unit}) t"
            assert await books.value(whole)
    entries = "SELECT sum(n::int) FROM latency_{} l, jsonb_each_text(l.tpot) AS e (b, n)"
    assert len({await books.value(entries.format(unit)) for unit in ("minute", "hour", "day")}) == 1


async def test_refusals_count_as_they_grow_and_once(books: Books, database: Database) -> None:
    """The bad events of an outage, written late and again, come to what they are."""
    minute = AT.replace(second=0)
    await refuse(books, 5)
    await refuse(books, 100, reason="rate_limit_exceeded")
    await count_all(database)
    await count_all(database)
    assert await sums(books, "minute") == {minute: Sums(0, 5)}
    await refuse(books, 8)
    await refuse(books, 8)  # a spool that is written twice
    await refuse(books, 3, run="run_2")
    await refuse(books, 2, at=AT - timedelta(hours=2))
    await count_all(database)
    assert await sums(books, "minute") == {minute: Sums(0, 11), minute - timedelta(hours=2): Sums(0, 2)}
    assert list((await sums(books, "day")).values()) == [Sums(0, 13)]


async def test_several_workers_count_each_refusal_once(books: Books, database: Database) -> None:
    for number in range(60):
        await refuse(books, 2, run=f"run_{number}")

    async def work() -> None:
        while True:
            (done,) = await commit_batch(database, [7], _count)
            assert isinstance(done, int), done
            if not done:
                return

    await asyncio.gather(*(work() for _ in range(4)))
    await count_all(database)
    assert await sums(books, "minute") == {AT.replace(second=0): Sums(0, 120)}


async def test_a_new_threshold_has_the_history_of_the_histograms(books: Books, database: Database) -> None:
    """Exactly: what is counted afterwards, from the events, comes to the same."""
    timings = [Timings(ttft_ms=100 * number, e2e_ms=5_000, tpot_us=100 * number) for number in range(1, 12)]
    for number, one in enumerate(timings):
        at = AT + timedelta(minutes=7 * number)
        await write(database, [settled(number, at, asked=STREAM, timings=one)])
    promise = objective("new", tenant_id="proj_a", threshold_us=700_000, is_recounted=False)
    async with database.write() as session:
        assert await ObjectiveRepository().insert(session, promise)
    await write(
        database, [settled(99, AT, asked=STREAM, timings=FAST)]
    )  # counted by the new threshold already
    async with database.transaction() as connection:
        await recount(connection, promise, AT - timedelta(days=30))
        assert all(one.is_recounted for one in await all_objectives(connection))
    rows = await books.rows("SELECT good, total FROM slo_day WHERE threshold_us = 700000")
    assert [tuple(row) for row in rows] == [(8, 12)]
    await write(database, [settled(100, AT, asked=STREAM, timings=SLOW)])
    assert await books.value("SELECT total FROM slo_day WHERE threshold_us = 700000") == 13
