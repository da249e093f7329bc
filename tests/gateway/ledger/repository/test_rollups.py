"""Rollups: nothing lost or doubled under 16 writers, equal to a recompute, and drift is seen."""

import asyncio
from datetime import UTC, date, datetime, timedelta

import pytest

from gateway.db import Database, WriteConnection
from gateway.ids import IdSource
from gateway.ledger.batcher import commit_batch
from gateway.ledger.repository.rollups import fold_usage, rebuild_day, rollup_drift
from gateway.ledger.settling import Operation, SettleBatch
from gateway.ledger.types import Hold
from gateway.reconcile.evidence import settlement_without_evidence
from tests.gateway.books import Books
from tests.gateway.ledger.builders import reservation, settlement

START = datetime(2026, 11, 28, 23, 50, tzinfo=UTC)
DAYS = (date(2026, 11, 1), date(2026, 12, 1))


async def _settle(books: Books, numbers: range) -> None:
    """Events spread over twenty minutes around midnight, three models, two keys."""
    batch = SettleBatch(IdSource())
    operations = []
    for number in numbers:
        asked = reservation(f"req_{number}", key_id=f"key_{number % 2}", served_model=f"m{number % 3}")
        at = START + timedelta(seconds=number * 7 % 1200)
        hold = Hold(asked, 10_000_000, (), at, at)
        operations.append(
            Operation(settlement=settlement(hold, at, prompt=number % 50, completion=number % 7))
        )
    await batch.prepare(books.database, operations)
    results = await commit_batch(books.database, operations, batch.apply)
    assert set(results) == {"settled"}


async def _fold(connection: WriteConnection, limits: list[int]) -> list[int]:
    return [await fold_usage(connection, limit) for limit in limits]


async def _fold_all(database: Database, limit: int) -> int:
    total = 0
    while True:
        (result,) = await commit_batch(database, [limit], _fold)
        assert isinstance(result, int), result
        if result == 0:
            return total
        total += result


async def test_sixteen_writers_lose_no_increment(books: Books, database_url: str) -> None:
    """Duty C19: rollup upserts go in one key order, deadlocks are tried again, and no increment is lost. While twelve fold the outbox into shared buckets, four go on settling."""
    await _settle(books, range(800))
    databases = [Database(database_url, name="test-fold", pool_size=1) for _ in range(12)]
    settling = [_settle(books, range(800 + 50 * n, 850 + 50 * n)) for n in range(4)]
    folded, _ = await asyncio.gather(
        asyncio.gather(*(_fold_all(database, 17) for database in databases)), asyncio.gather(*settling)
    )
    folded_last = await _fold_all(databases[0], 1000)
    for database in databases:
        await database.close()
    assert sum(folded) + folded_last == 1000
    assert await books.count("outbox") == 0
    for unit in ("minute", "hour", "day"):
        difference = await books.rows(
            f"WITH c AS (SELECT date_trunc('{unit}', occurred_at, 'UTC') AS bucket, key_id, served_model,"
            " count(*) AS n, sum(prompt_uncached_tokens) AS p, sum(completion_tokens) AS c, sum(amount_nanousd) AS a"
            " FROM usage_event GROUP BY 1, 2, 3),"
            f" r AS (SELECT bucket, key_id, served_model, requests::bigint AS n, prompt_uncached_tokens::numeric AS p,"
            f" completion_tokens::numeric AS c, amount_nanousd::numeric AS a FROM rollup_{unit})"
            " (SELECT * FROM c EXCEPT SELECT * FROM r) UNION ALL (SELECT * FROM r EXCEPT SELECT * FROM c)"
        )
        assert difference == []
    async with books.database.transaction() as connection:
        drift = await rollup_drift(connection, *DAYS)
    assert (drift.nanousd, drift.tokens, drift.requests) == (0, 0, 0)


async def test_what_a_cancelled_fold_had_taken_is_not_lost(books: Books, database_url: str) -> None:
    """Duty A9: no row is lost between the outbox and the rollups, however many there are and whoever stops when."""
    await _settle(books, range(400))
    database = Database(database_url, name="test-fold", pool_size=2)
    for delay_ms in (0, 1, 2, 4, 8, 16, 32):
        folding = asyncio.create_task(commit_batch(database, [150], _fold))
        await asyncio.sleep(delay_ms / 1000)
        folding.cancel()
        await asyncio.gather(folding, return_exceptions=True)
    await _fold_all(database, 150)
    await database.close()
    assert await books.value("SELECT sum(requests)::int FROM rollup_day") == 400
    async with books.database.transaction() as connection:
        assert not await rollup_drift(connection, *DAYS)


async def test_a_day_is_made_anew_while_others_settle_and_fold(books: Books, database_url: str) -> None:
    await _settle(books, range(200))
    await _fold_all(books.database, 500)
    for statement in ("UPDATE rollup_hour SET requests = requests + 1", "DELETE FROM rollup_day"):
        await books.run(statement)
    database = Database(database_url, name="test-rebuild", pool_size=3)

    async def rebuild() -> int:
        wrong = 0
        for day in (date(2026, 11, 28), date(2026, 11, 29)) * 3:
            async with database.transaction() as connection:
                wrong += (await rebuild_day(connection, day)).requests
        return wrong

    async def go_on() -> None:
        for first in range(200, 400, 20):
            await _settle(books, range(first, first + 20))
            await _fold_all(database, 7)

    wrong, _ = await asyncio.gather(rebuild(), go_on())
    await _fold_all(database, 500)
    await database.close()
    assert wrong > 0
    assert await books.value("SELECT sum(requests)::int FROM rollup_minute") == 400
    async with books.database.transaction() as connection:
        assert not await rollup_drift(connection, *DAYS)


async def test_drift_is_seen_and_what_is_still_in_the_outbox_is_not_drift(books: Books) -> None:
    await _settle(books, range(20))
    async with books.database.transaction() as connection:
        assert (await rollup_drift(connection, *DAYS)).nanousd == 0
    await _fold_all(books.database, 100)
    await books.run("UPDATE rollup_day SET amount_nanousd = amount_nanousd + 7 WHERE served_model = 'm1'")
    async with books.database.transaction() as connection:
        assert (await rollup_drift(connection, *DAYS)).nanousd % 7 == 0
        assert (await rollup_drift(connection, *DAYS)).nanousd > 0


async def test_a_correction_adds_money_and_no_request(books: Books) -> None:
    hold = Hold(reservation("req_1"), 50_000, (), START, START)
    batch = SettleBatch(IdSource())
    for one in (
        settlement_without_evidence(hold, START, may_have_run=True),
        settlement(hold, START, prompt=10),
    ):
        await batch.prepare(books.database, [Operation(settlement=one)])
        await commit_batch(books.database, [Operation(settlement=one)], batch.apply)
    await _fold_all(books.database, 100)
    rows = await books.rows("SELECT sum(requests)::int, sum(amount_nanousd)::int FROM rollup_day")
    assert tuple(rows[0]) == (1, 10 * 100 + 5 * 400)


async def test_an_outbox_row_without_an_event_stops_the_batch_and_stays(books: Books) -> None:
    await books.run(
        "INSERT INTO outbox (topic, payload) VALUES ('usage', jsonb_build_object('occurred_at', now(),"
        " 'event_id', gen_random_uuid()))"
    )
    with pytest.raises(LookupError):
        await commit_batch(books.database, [10], _fold)
    assert await books.count("outbox") == 1
