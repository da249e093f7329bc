"""Journal pages as they are kept: with their cursor, growing only, and closed by an end."""

from dataclasses import replace

from gateway.ids import PoolId, ReplicaId, RequestId
from gateway.reconcile.evidence import JournalAttempt
from gateway.reconcile.journal import ReplicaRef
from gateway.reconcile.repository.drift import unmatched_tokens
from gateway.reconcile.repository.journals import (
    attempts_of,
    cursor_of,
    replicas,
    save_page,
    unsettled_requests,
)
from tests.gateway.books import Books
from tests.instants import just_now

R = ReplicaId("replica_1")
NOW = just_now()
STARTED = JournalAttempt(
    RequestId("req_1"), 0, R, "e1", False, 10, 4, 0, 0, None, None, None, None, None, NOW
)


async def _save(books: Books, cursor: str, *attempts: JournalAttempt) -> None:
    async with books.database.transaction() as connection:
        await save_page(connection, R, cursor, attempts)


async def _kept(books: Books) -> JournalAttempt:
    async with books.database.transaction() as connection:
        (found,) = (await attempts_of(connection, [RequestId("req_1")]))[RequestId("req_1")]
    return found


async def test_a_page_and_its_cursor_are_saved_together(books: Books) -> None:
    async with books.database.transaction() as connection:
        assert await cursor_of(connection, R) is None
    await _save(books, "c1", STARTED)
    await _save(books, "c2")
    async with books.database.transaction() as connection:
        assert await cursor_of(connection, R) == "c2"
    assert await _kept(books) == STARTED
    assert await books.value("SELECT epoch FROM engine_epoch WHERE replica_id = 'replica_1'") == "e1"


async def test_counters_grow_and_nothing_changes_after_the_end(books: Books) -> None:
    ended = replace(STARTED, has_ended=True, completion_tokens=9, finish_reason="stop", queue_ms=1, e2e_ms=5)
    await _save(books, "c1", replace(STARTED, completion_tokens=5))
    await _save(books, "c2", replace(STARTED, completion_tokens=3))
    assert (await _kept(books)).completion_tokens == 5
    await _save(books, "c3", ended)
    await _save(books, "c4", replace(STARTED, completion_tokens=50))
    assert await _kept(books) == ended
    async with books.database.transaction() as connection:
        assert await unmatched_tokens(connection, lag_s=0) == 19


async def test_every_replica_is_asked_whatever_its_state(books: Books) -> None:
    await books.run("INSERT INTO pool (id, name, spec) VALUES ('pool_a', 'a', '{}')")
    await books.run("INSERT INTO pool (id, name, spec) VALUES ('pool_b', 'b', '{\"kind\": \"external\"}')")
    for name, pool, state in (
        ("r1", "pool_a", "ready"),
        ("r2", "pool_a", "stopped"),
        ("r3", "pool_b", "ready"),
    ):
        await books.run(
            "INSERT INTO replica (id, pool_id, node, state, url, journal_dir) VALUES (:id, :pool, 'n', :state, NULL,"
            " CASE WHEN :state = 'stopped' THEN '/journals/r2' END)",
            id=name,
            pool=pool,
            state=state,
        )
    await books.run("UPDATE replica SET updated_at = :now", now=NOW)
    async with books.database.transaction() as connection:
        found = await replicas(connection)
    assert found == [
        ReplicaRef(ReplicaId("r1"), PoolId("pool_a"), None),
        ReplicaRef(ReplicaId("r2"), PoolId("pool_a"), None, stopped_at=NOW, journal_dir="/journals/r2"),
        ReplicaRef(ReplicaId("r3"), PoolId("pool_b"), None, is_ours=False),
    ]


async def test_what_the_ledger_never_heard_of_stands_before_nothing(books: Books) -> None:
    """A journal that outlived its database: its requests can never be settled, and must not fill the page."""
    ended = replace(STARTED, has_ended=True)
    await _save(books, "c1", *(replace(ended, request_id=RequestId(f"req_0{number}")) for number in range(3)))
    await _save(books, "c2", replace(ended, request_id=RequestId("req_9")))
    await books.run(
        """INSERT INTO settled_request (request_id, tenant_id, event_id, occurred_at, is_provisional)
        VALUES ('req_9', 't', gen_random_uuid(), now(), true)"""
    )
    async with books.database.transaction() as connection:
        assert await unsettled_requests(connection, 0, 0, limit=2) == ["req_9"]


async def test_an_attempt_whose_end_was_never_read_is_not_missing_from_the_ledger(books: Books) -> None:
    """Its replica was drained away meanwhile; the gateway had the whole answer."""
    await _save(books, "c1", replace(STARTED, completion_tokens=5), replace(STARTED, attempt=1))
    async with books.database.transaction() as connection:
        assert await unmatched_tokens(connection, lag_s=0) == 25
    await books.run(
        """INSERT INTO attempt (request_id, attempt, tenant_id, replica_id, engine_epoch, prompt_tokens, cached_tokens,
            completion_tokens, overrun_tokens, billed_prompt_tokens, billed_completion_tokens)
        VALUES ('req_1', 0, 'proj_a', 'replica_1', 'e1', 10, 4, 30, 0, 10, 30)"""
    )
    async with books.database.transaction() as connection:
        assert await unmatched_tokens(connection, lag_s=0) == 10
