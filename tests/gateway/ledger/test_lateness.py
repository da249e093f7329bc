"""Late settlements: an adjustment in the open period, or for a person to look at; never a change of what is closed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gateway.ids import IdSource
from gateway.ledger.horizon import EVIDENCE_AGE_MAX
from gateway.ledger.settling import Operation, Outcome, SettleBatch
from gateway.ledger.types import AttemptRecord, Hold, Settlement
from tests.fakes.clock import ManualClock
from tests.gateway.books import Books
from tests.gateway.ledger.builders import reservation, settlement

OCTOBER = datetime(2026, 10, 31, 23, 59, tzinfo=UTC)
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
START_OF_NOVEMBER = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture
def batch() -> SettleBatch:
    return SettleBatch(IdSource(ManualClock(NOW)))


async def _close_october(books: Books) -> None:
    await books.run(
        "INSERT INTO billing_period (period_key, starts_at, ends_at, requests, tokens, amount_nanousd)"
        " VALUES ('2026-10', '2026-10-01Z', '2026-11-01Z', 0, 0, 0)"
    )


async def _settle(books: Books, batch: SettleBatch, one: Settlement) -> Outcome | Exception:
    (result,) = await batch.commit(books.database, [Operation(settlement=one)])
    return result


def _at(at: datetime, request_id: str = "req_1") -> Settlement:
    return settlement(Hold(reservation(request_id), 50_000, (), at, at), at)


async def test_a_late_event_is_booked_where_it_happened_while_its_period_is_open(
    books: Books, batch: SettleBatch
) -> None:
    assert await _settle(books, batch, _at(OCTOBER)) == "settled"
    rows = await books.rows("SELECT occurred_at, late_from FROM usage_event")
    assert [tuple(row) for row in rows] == [(OCTOBER, None)]


async def test_a_late_event_of_a_closed_period_is_an_adjustment_in_the_open_one(
    books: Books, batch: SettleBatch
) -> None:
    await _close_october(books)
    assert await _settle(books, batch, _at(OCTOBER)) == "settled"
    assert await _settle(books, batch, _at(OCTOBER)) == "duplicate"
    assert await _settle(books, batch, _at(START_OF_NOVEMBER, "req_2")) == "settled"
    rows = await books.rows("SELECT request_id, occurred_at, late_from FROM usage_event ORDER BY 1")
    assert [tuple(row) for row in rows] == [("req_1", NOW, OCTOBER), ("req_2", START_OF_NOVEMBER, None)]
    assert await books.value("SELECT occurred_at FROM settled_request WHERE request_id = 'req_1'") == NOW
    payload = await books.value(
        "SELECT payload FROM outbox WHERE payload ->> 'occurred_at' LIKE '2026-11-29%'"
    )
    assert payload, "the rollups get it in the open period's bucket"


async def test_a_correction_of_a_closed_period_is_an_adjustment_in_the_open_one(
    books: Books, batch: SettleBatch
) -> None:
    assumed = AttemptRecord.billed(0, None, None, prompt_tokens=30, cached_tokens=0, completion_tokens=0)
    provisional = replace(_at(OCTOBER), attempts=(assumed,), status="unknown", is_provisional=True)
    assert await _settle(books, batch, provisional) == "settled"
    await _close_october(books)
    assert await _settle(books, batch, _at(OCTOBER)) == "corrected"
    rows = await books.rows(
        "SELECT occurred_at, late_from, corrects IS NOT NULL, amount_nanousd FROM usage_event ORDER BY occurred_at"
    )
    assert [tuple(row) for row in rows] == [
        (OCTOBER, None, False, 30 * 100),
        (NOW, OCTOBER, True, 10 * 100 + 5 * 400 - 30 * 100),
    ]


async def test_evidence_older_than_the_guard_is_listed_and_never_settles_by_itself(
    books: Books, batch: SettleBatch
) -> None:
    ancient = NOW - EVIDENCE_AGE_MAX - timedelta(seconds=1)
    assert await _settle(books, batch, _at(ancient)) == "listed"
    assert await _settle(books, batch, _at(ancient)) == "listed"
    assert await books.count("usage_event") == await books.count("settled_request") == 0
    rows = await books.rows("SELECT kind, subject, tenant_id, details FROM review_item")
    assert [tuple(row)[:3] for row in rows] == [("stale_settlement", "req_1", "proj_a")]
    assert rows[0].details["settlement"]["attempts"][0]["completion_tokens"] == 5, "with all that is needed"


async def test_however_old_a_request_with_a_hold_or_a_guard_is_known(
    books: Books, batch: SettleBatch
) -> None:
    ancient = NOW - EVIDENCE_AGE_MAX - timedelta(days=1)
    await books.run(
        "INSERT INTO settled_request (request_id, tenant_id, event_id, occurred_at, is_provisional)"
        " VALUES ('req_1', 'proj_a', gen_random_uuid(), now(), false)"
    )
    assert await _settle(books, batch, _at(ancient)) == "duplicate"
    assert await books.count("review_item") == 0
