"""Months close when nothing of them is on its way and their rollups are proved; then they stay as they are."""

from datetime import UTC, datetime, timedelta

from gateway.ids import IdSource
from gateway.ledger.closing import CLOSE_AFTER, PeriodCloser, recompute
from gateway.ledger.repository.rollups import fold_usage
from gateway.ledger.settling import Operation, SettleBatch
from gateway.ledger.types import Hold
from tests.fakes.clock import ManualClock
from tests.gateway.books import Books
from tests.gateway.ledger.builders import reservation, settlement

AUGUST = datetime(2026, 8, 31, 23, 59, 59, tzinfo=UTC)
SEPTEMBER = datetime(2026, 9, 1, tzinfo=UTC)
DUE = datetime(2026, 9, 1, tzinfo=UTC) + CLOSE_AFTER


async def _settle(books: Books, request_id: str, at: datetime) -> None:
    batch = SettleBatch(IdSource(ManualClock(at)))
    hold = Hold(reservation(request_id), 50_000, (), at, at)
    results = await batch.commit(books.database, [Operation(settlement=settlement(hold, at))])
    assert results == ["settled"]


async def _fold(books: Books) -> None:
    async with books.database.transaction() as connection:
        await fold_usage(connection, 100)


async def test_a_month_closes_when_its_time_has_come_with_what_it_came_to(books: Books) -> None:
    closer = PeriodCloser(books.database)
    assert await closer.close_due(DUE) == [], "nothing has ever happened"
    await _settle(books, "req_1", AUGUST)
    await _settle(books, "req_2", SEPTEMBER)
    await _fold(books)
    assert await closer.close_due(DUE - timedelta(seconds=1)) == []
    assert await closer.close_due(DUE) == ["2026-08"]
    assert await closer.close_due(DUE) == []
    rows = await books.rows(
        "SELECT period_key, starts_at, ends_at, requests, tokens, amount_nanousd FROM billing_period"
    )
    bounds = (datetime(2026, 8, 1, tzinfo=UTC), datetime(2026, 9, 1, tzinfo=UTC))
    assert [tuple(row) for row in rows] == [("2026-08", *bounds, 1, 15, 10 * 100 + 5 * 400)]
    assert await closer.close_due(DUE + timedelta(days=61)) == ["2026-09", "2026-10"], (
        "also empty ones, in order"
    )


async def test_what_is_on_its_way_keeps_a_month_open(books: Books) -> None:
    closer = PeriodCloser(books.database)
    await _settle(books, "req_1", AUGUST)
    assert await closer.close_due(DUE) == [], "its event is not in the rollups yet"
    await _fold(books)
    await books.run(
        """INSERT INTO hold (request_id, instance_id, tenant_id, key_id, served_model, route_id, pool_id, endpoint,
            request_class, is_stream, client_retry_count, price_input_id, price_cached_input_id, price_output_id,
            max_prompt_tokens, max_output_tokens, estimated_prompt_tokens, amount_nanousd, takes, reserved_at,
            expires_at)
        VALUES ('req_9', 'run', 'proj_a', 'k', 'm', 'r', 'p', 'e', 'c', false, 0, 1, 2, 3, 1, 1, 1, 1, '[]', :at, :at)""",
        at=AUGUST,
    )
    assert await closer.close_due(DUE) == []
    await books.run("DELETE FROM hold")
    assert await closer.close_due(DUE) == ["2026-08"]


async def test_a_month_whose_rollups_differ_from_its_events_is_not_closed(books: Books) -> None:
    """Duty A9: whichever of the three tables it is."""
    closer = PeriodCloser(books.database)
    await _settle(books, "req_1", AUGUST)
    await _fold(books)
    for unit in ("minute", "hour", "day"):
        await books.run(f"UPDATE rollup_{unit} SET completion_tokens = completion_tokens - 1")
        assert (await recompute(books.database, AUGUST, SEPTEMBER)).tokens == 1
        assert await closer.close_due(DUE) == []
        await books.run(f"UPDATE rollup_{unit} SET completion_tokens = completion_tokens + 1")
    assert await closer.close_due(DUE) == ["2026-08"]
