"""Group commit: deadlocks are run again, a poisoned operation fails alone, an outage is told to the caller."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from gateway.db import (
    Database,
    Prepared,
    WriteConnection,
    is_serialization_failure,
    is_unavailable,
    rows_of,
)
from gateway.ledger.batcher import BatchQueue, CommitUnknown, QueueFull, commit_at_once, commit_batch, serve
from gateway.obs.logging import get_logger


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, name="test", pool_size=4, role=None)
    async with database.write() as session:
        await session.execute(text("CREATE TABLE tally (id int PRIMARY KEY, n int NOT NULL DEFAULT 0)"))
        await session.execute(text("INSERT INTO tally VALUES (1), (2)"))
    yield database
    await database.close()


async def _tally(database: Database) -> list[int]:
    async with database.read() as session:
        return list((await session.execute(text("SELECT n FROM tally ORDER BY id"))).scalars())


async def _divide(connection: WriteConnection, divisors: Sequence[int]) -> list[int]:
    """Adds 100 / divisor to row 1, for each; a zero poisons the batch."""
    for divisor in divisors:
        await connection.execute(text("UPDATE tally SET n = n + 100 / :d WHERE id = 1"), {"d": divisor})
    return list(divisors)


@pytest.mark.parametrize("poison", [0, 3, 6])
async def test_a_poisoned_operation_fails_alone(database: Database, poison: int) -> None:
    divisors = [10] * 7
    divisors[poison] = 0
    results = await commit_batch(database, divisors, _divide)
    assert [isinstance(result, Exception) for result in results] == [d == 0 for d in divisors]
    assert (await _tally(database))[0] == 60


async def test_a_batch_of_nothing_but_poison_changes_nothing(database: Database) -> None:
    results = await commit_batch(database, [0, 0, 0], _divide)
    assert all(isinstance(result, Exception) for result in results)
    assert await _tally(database) == [0, 0]


async def test_a_deadlock_is_run_again_and_loses_nothing(database: Database) -> None:
    """Two batches that lock the same rows in opposite order, on purpose."""
    met = asyncio.Barrier(2)
    tries = 0

    async def add(connection: WriteConnection, rows: Sequence[int]) -> list[int]:
        nonlocal tries
        tries += 1
        first_time = tries <= 2
        for row in rows:
            await connection.execute(text("UPDATE tally SET n = n + 1 WHERE id = :id"), {"id": row})
            if first_time and row == rows[0]:
                await met.wait()
        return list(rows)

    results = await asyncio.gather(commit_batch(database, [1, 2], add), commit_batch(database, [2, 1], add))
    assert results == [[1, 2], [2, 1]]
    assert tries >= 3
    assert await _tally(database) == [2, 2]


async def test_an_unreachable_server_is_raised_and_nothing_took_place() -> None:
    gone = Database("postgresql://nobody@127.0.0.1:1/none", name="test")
    with pytest.raises(OSError) as away:  # noqa: PT011  (whatever the network says)
        await commit_batch(gone, [1], _divide)
    assert is_unavailable(away.value)
    await gone.close()


async def test_a_connection_lost_in_the_commit_is_unknown(database: Database) -> None:
    async def apply_and_die(connection: WriteConnection, operations: Sequence[int]) -> list[int]:
        await _divide(connection, operations)
        pid = (await connection.execute(text("SELECT pg_backend_pid()"))).scalar_one()
        async with database.transaction() as other:
            await other.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})
        return list(operations)

    with pytest.raises(CommitUnknown):
        await commit_batch(database, [1], apply_and_die)


async def test_a_connection_that_died_while_idle_is_replaced(database: Database) -> None:
    assert await commit_batch(database, [1], _divide) == [1]
    async with database.transaction() as connection:
        await connection.execute(
            text(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE application_name = 'test' AND pid <> pg_backend_pid()"
            )
        )
    assert await commit_batch(database, [1], _divide) == [1]
    assert (await _tally(database))[0] == 200


_ADD = Prepared("UPDATE tally SET n = n + 100 / CAST(:d AS int) WHERE id = 1 RETURNING n")
_DIE = Prepared("SELECT pg_terminate_backend(pg_backend_pid())")


async def test_one_statement_commits_by_itself_or_has_not_taken_place(database: Database) -> None:
    for divisor, left in ((10, [10]), (0, None), (5, [30])):
        rows = await commit_at_once(database, lambda lane, d=divisor: rows_of(lane, _ADD, {"d": d}))  # type: ignore[misc]  # the loop's own
        assert (rows and [row[0] for row in rows]) == left
    assert (await _tally(database))[0] == 30


async def test_one_statement_whose_connection_is_lost_is_unknown_and_one_never_sent_is_not(
    database: Database,
) -> None:
    with pytest.raises(CommitUnknown):
        await commit_at_once(database, lambda lane: rows_of(lane, _DIE, {}))
    assert await commit_at_once(database, lambda lane: rows_of(lane, _ADD, {"d": 100})) is not None
    away = Database("postgresql://nobody@127.0.0.1:1/none", name="test")
    with pytest.raises(OSError, match="1"):
        await commit_at_once(away, lambda lane: rows_of(lane, _ADD, {"d": 1}))
    await away.close()


async def test_the_queue_is_bounded_hands_out_batches_and_ends_when_closed() -> None:
    queue: BatchQueue[int] = BatchQueue(capacity=5, batch_max=3)
    for number in range(5):
        queue.put_nowait(number)
    with pytest.raises(QueueFull):
        queue.put_nowait(5)
    assert await queue.get() == [0, 1, 2]
    queue.close()
    with pytest.raises(QueueFull):
        queue.put_nowait(6)
    assert await queue.get() == [3, 4]
    assert await queue.get() == []


async def test_a_lingering_queue_gathers_and_is_not_held_up_by_its_end() -> None:
    queue: BatchQueue[int] = BatchQueue(capacity=5, batch_max=3, linger_s=0.05)
    queue.put_nowait(0)
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert len(queue) == 1, "what lingers still counts as waiting"
    queue.put_nowait(1)
    assert await waiting == [0, 1]
    queue.put_nowait(2)
    queue.close()
    async with asyncio.timeout(0.04):
        assert await queue.get() == [2]


async def _given_up_by_serve(error: BaseException) -> type[Exception]:
    """What the second of three batches was given up with whose commit raises `error`; the others are committed."""
    queue: BatchQueue[int] = BatchQueue(capacity=10, batch_max=1)
    committed: list[int] = []
    given_up: list[tuple[list[int], type[Exception]]] = []

    async def commit(batch: list[int]) -> None:
        if batch == [1]:
            raise error
        committed.extend(batch)

    for number in range(3):
        queue.put_nowait(number)
    queue.close()
    await serve(queue, commit, lambda batch, bug: given_up.append((batch, type(bug))), get_logger("test"))
    assert committed == [0, 2]
    [(batch, kind)] = given_up
    assert batch == [1]
    return kind


async def test_a_bug_fails_its_batch_and_not_the_loop() -> None:
    assert await _given_up_by_serve(LookupError("a bug")) is LookupError


async def test_a_cancellation_that_nobody_asked_for_fails_its_batch_and_not_the_loop(
    database: Database,
) -> None:
    """As a driver may let one out. Whether the batch was committed is not known."""
    assert await _given_up_by_serve(asyncio.CancelledError()) is CommitUnknown

    async def stray(*_: object) -> list[int]:
        raise asyncio.CancelledError

    with pytest.raises(CommitUnknown):
        await commit_at_once(database, stray)
    with pytest.raises(CommitUnknown):
        await commit_batch(database, [1], stray)


async def test_a_batcher_that_is_cancelled_ends(database: Database) -> None:
    began = asyncio.Event()

    async def wait(*_: object) -> list[int]:
        began.set()
        await asyncio.Event().wait()
        return []

    for work in (commit_batch(database, [1], wait), commit_at_once(database, wait)):
        began.clear()
        task = asyncio.create_task(work)
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_deadlocks_are_not_met_for_ever(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for a batch waits for all its tries; in the end the server's own word is raised."""
    monkeypatch.setattr("gateway.ledger.batcher.RETRY_FOR_S", -1.0)  # the end has come

    async def deadlock(connection: WriteConnection, _: Sequence[int]) -> list[int]:
        await connection.execute(text(_RAISE.format("deadlock_detected")))
        return []

    with pytest.raises(DBAPIError) as last:
        await commit_batch(database, [1], deadlock)
    assert is_serialization_failure(last.value)


_RAISE = "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{}'; END $$"


@pytest.mark.parametrize("state", ["lock_not_available", "query_canceled", "disk_full"])
async def test_what_the_server_refused_has_not_taken_place_and_is_raised_as_it_is(
    database: Database, state: str
) -> None:
    """In a statement of its own, and in the commit of a transaction, where only silence leaves anything unknown."""
    with pytest.raises(asyncpg.PostgresError) as refused:
        await commit_at_once(database, lambda lane: rows_of(lane, Prepared(_RAISE.format(state)), {}))
    assert is_unavailable(refused.value)
    async with database.transaction() as connection:
        await connection.execute(
            text(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
                f" $f$ BEGIN RAISE EXCEPTION USING ERRCODE = '{state}'; END $f$"
            )
        )
        await connection.execute(
            text(
                "CREATE CONSTRAINT TRIGGER late AFTER UPDATE ON tally DEFERRABLE INITIALLY DEFERRED"
                " FOR EACH ROW EXECUTE FUNCTION refuse()"
            )
        )
    with pytest.raises(DBAPIError) as in_commit:
        await commit_batch(database, [10], _divide)
    assert is_unavailable(in_commit.value)
    assert await _tally(database) == [0, 0]
