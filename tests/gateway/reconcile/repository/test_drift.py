"""The two equalities: journal = Σ attempt(billed + unbilled), event = Σ billed."""

import pytest

from gateway.db import Database, WriteConnection
from gateway.ids import IdSource, ReplicaId, RequestId
from gateway.ledger.batcher import commit_batch
from gateway.ledger.settling import Operation, SettleBatch
from gateway.ledger.types import AttemptRecord, Hold, Settlement
from gateway.reconcile.evidence import JournalAttempt
from gateway.reconcile.repository.drift import (
    EpochSums,
    differing_tokens,
    epoch_sums,
    event_drift,
    match_attempts,
)
from gateway.reconcile.repository.journals import save_page
from tests.gateway.books import Books
from tests.gateway.ledger.builders import reservation
from tests.instants import just_now

R = ReplicaId("replica_1")
NOW = just_now()


async def _settle(books: Books, request_id: str, completion: int) -> None:
    record = AttemptRecord.billed(0, R, "e1", prompt_tokens=10, cached_tokens=4, completion_tokens=completion)
    batch = SettleBatch(IdSource())
    hold = Hold(reservation(request_id), 50_000, (), NOW, NOW)
    operations = [Operation(settlement=Settlement(hold, "ok", NOW, (record,)))]
    await batch.prepare(books.database, operations)
    assert await commit_batch(books.database, operations, batch.apply) == ["settled"]


async def _journal(connection: WriteConnection, request_id: str, completion: int, overrun: int = 0) -> None:
    one = JournalAttempt(
        RequestId(request_id),
        0,
        R,
        "e1",
        True,
        10,
        4,
        completion,
        overrun,
        None,
        "stop",
        None,
        None,
        None,
        NOW,
    )
    await save_page(connection, R, "c", [one])


async def test_a_difference_between_journal_and_ledger_stays_visible(books: Books) -> None:
    """Duty A10: per engine epoch, what the engine says it produced is what the ledger accounts for."""
    await _settle(books, "req_1", 7)
    await _settle(books, "req_2", 7)
    async with books.database.transaction() as connection:
        await _journal(connection, "req_1", 7)
        assert await match_attempts(connection) == 0
        assert await epoch_sums(connection) == [EpochSums(R, "e1", 17, 17, 0)]
        await _journal(connection, "req_2", 9)
        assert await match_attempts(connection) == 2
        assert await match_attempts(connection) == 0, "each is matched once"
        assert await differing_tokens(connection) == 2
        (sums,) = await epoch_sums(connection)
        assert (sums.journalled, sums.billed, sums.is_equal) == (36, 34, False)


async def test_what_an_engine_computed_after_the_end_is_in_the_ledger_too(
    books: Books, database_url: str
) -> None:
    """Written with the application's own rights, which are narrow here."""
    await _settle(books, "req_1", 7)
    application = Database(database_url, name="test-match", pool_size=1)
    async with application.transaction() as connection:
        await _journal(connection, "req_1", 7, overrun=3)
        assert await match_attempts(connection) == 0
    await application.close()
    rows = await books.rows("SELECT completion_tokens, overrun_tokens, billed_completion_tokens FROM attempt")
    assert [tuple(row) for row in rows] == [(7, 3, 7)]


@pytest.mark.parametrize("column", ["prompt_uncached_tokens", "completion_tokens"])
async def test_an_event_that_is_not_the_sum_of_its_attempts_is_found(books: Books, column: str) -> None:
    await _settle(books, "req_1", 7)
    async with books.database.transaction() as connection:
        assert await event_drift(connection, 600) == 0
    await books.run(f"UPDATE usage_event SET {column} = {column} + 3")
    async with books.database.transaction() as connection:
        assert await event_drift(connection, 600) == 3
        assert await event_drift(connection, -1) == 0, "only what was settled within the window"


async def test_a_request_without_an_event_is_found(books: Books) -> None:
    await _settle(books, "req_1", 7)
    await books.run("DELETE FROM usage_event")
    async with books.database.transaction() as connection:
        assert await event_drift(connection, 600) == 17
