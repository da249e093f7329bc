"""The application's role: what one superuser URL may not do once it has stepped down."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, ProgrammingError

from gateway.db import (
    Backend,
    Database,
    Prepared,
    async_url,
    is_serialization_failure,
    is_unavailable,
    rows_of,
    was_refused,
)
from gateway.settings import DatabaseSettings
from tests.fakes.tcp_proxy import TcpProxy

FORBIDDEN = (
    "UPDATE usage_event SET status = 'ok'",
    "DELETE FROM usage_event",
    "TRUNCATE usage_event",
    "UPDATE attempt SET billed_prompt_tokens = 0",
    "DELETE FROM attempt",
    "UPDATE price SET nanousd_per_token = 0",
    "DELETE FROM price",
    "UPDATE audit_log SET action = ''",
    "DELETE FROM audit_log",
    "DELETE FROM settled_request",
    "DELETE FROM budget_period",
    "UPDATE config_revision SET revision = 0",
    "CREATE TABLE stray (id int)",
    "DROP TABLE hold",
    "ALTER TABLE hold ADD COLUMN stray int",
)


@pytest.mark.parametrize("statement", FORBIDDEN)
async def test_the_application_may_not(database_url: str, statement: str) -> None:
    database = Database(database_url, name="test")
    try:
        with pytest.raises(ProgrammingError, match=r"permission denied|must be owner"):
            async with database.write() as session:
                await session.execute(text(statement))
    finally:
        await database.close()


async def test_a_read_session_cannot_write(database_url: str) -> None:
    database = Database(database_url, name="test")
    with pytest.raises(DBAPIError, match="read-only transaction"):
        async with database.read() as session:
            await session.execute(text("INSERT INTO tenant (id, name) VALUES ('a', 'a')"))
    await database.close()


async def test_a_write_session_commits_at_its_end_and_only_without_an_error(database_url: str) -> None:
    database = Database(database_url, name="test")
    async with database.write() as session:
        await session.execute(text("INSERT INTO tenant (id, name) VALUES ('kept', 'a')"))
    with pytest.raises(ZeroDivisionError):
        await _insert_and_fail(database)
    async with database.read() as session:
        found = (await session.execute(text("SELECT id FROM tenant"))).scalars().all()
    await database.close()
    assert found == ["kept"]


async def _insert_and_fail(database: Database) -> None:
    async with database.write() as session:
        await session.execute(text("INSERT INTO tenant (id, name) VALUES ('lost', 'a')"))
        raise ZeroDivisionError


async def test_an_unreachable_server_is_told_from_a_wrong_statement(database_url: str) -> None:
    gone = Database("postgresql://nobody@127.0.0.1:1/none", name="test")
    with pytest.raises(OSError) as away:  # noqa: PT011  (any refusal of the network will do)
        async with gone.write() as session:
            await session.execute(text("SELECT 1"))
    await gone.close()
    assert is_unavailable(away.value)
    database = Database(database_url, name="test")
    with pytest.raises(DBAPIError) as wrong:
        async with database.write() as session:
            await session.execute(text("SELECT nothing FROM nowhere"))
    await database.close()
    assert not is_unavailable(wrong.value)
    assert not is_serialization_failure(wrong.value)


@pytest.mark.parametrize(
    ("setting", "too_much"),
    [
        ("SET LOCAL statement_timeout = 20", "SELECT pg_sleep(5)"),
        ("SET LOCAL lock_timeout = 20", "LOCK TABLE tenant IN ACCESS EXCLUSIVE MODE"),
        ("SET TRANSACTION READ ONLY", "INSERT INTO tenant (id, name) VALUES ('t', 'a')"),
        ("SELECT 1", "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'disk_full'; END $$"),
    ],
)
async def test_a_server_that_is_too_busy_full_or_demoted_is_unavailable(
    database_url: str, setting: str, too_much: str
) -> None:
    """Else a settlement that met a lock would be thrown away, and a key would be 500 instead of stale."""
    database, other = Database(database_url, name="test"), Database(database_url, name="other")
    async with other.transaction() as holder:
        await holder.execute(text("SELECT count(*) FROM tenant"))
        with pytest.raises(DBAPIError) as refused:
            await _in_one_transaction(database, setting, too_much)
    await database.close()
    await other.close()
    assert is_unavailable(refused.value)


async def _in_one_transaction(database: Database, *statements: str) -> None:
    async with database.transaction() as connection:
        for statement in statements:
            await connection.execute(text(statement))


async def test_a_checked_connection_survives_the_end_of_its_server(database_url: str) -> None:
    """Else the first caller after a restart of Postgres would get the error of each dead connection."""
    database, other = (
        Database(database_url, name="idle", checked=True),
        Database(database_url, name="other", role=None),
    )
    async with database.read() as session:
        first = await session.scalar(text("SELECT pg_backend_pid()"))
    async with other.transaction() as connection:
        await connection.execute(text("SELECT pg_terminate_backend(:pid, 60000)"), {"pid": first})
    async with database.read() as session:
        assert await session.scalar(text("SELECT pg_backend_pid()")) != first
    await database.close()
    await other.close()


async def test_errors_do_not_repeat_what_they_were_given(database_url: str) -> None:
    database = Database(database_url, name="test")
    with pytest.raises(DBAPIError) as wrong:
        async with database.transaction() as connection:
            await connection.execute(text("SELECT nothing FROM tenant WHERE id = :id"), {"id": "a-secret"})
    await database.close()
    assert "a-secret" not in str(wrong.value)


def test_every_spelling_of_a_url_means_asyncpg() -> None:
    for scheme in ("postgres", "postgresql", "postgresql+asyncpg"):
        assert async_url(f"{scheme}://u:p%40@h:1/d") == "postgresql+asyncpg://u:p%40@h:1/d"


async def test_a_statement_commits_by_itself_and_a_closed_connection_is_replaced(database_url: str) -> None:
    database = Database(database_url, name="test-statement", pool_size=1, keyed=True)
    async with database.statement() as connection:
        await connection.execute(text("INSERT INTO outbox (topic, payload) VALUES ('t', '{}')"))
        assert (await connection.execute(text("SHOW enable_seqscan"))).scalar_one() == "off"
        pid = (await connection.execute(text("SELECT pg_backend_pid()"))).scalar_one()
        driver = (await connection.get_raw_connection()).driver_connection
    other = Database(database_url, name="test-other", pool_size=1, role=None)
    async with other.transaction() as connection:
        assert (await connection.execute(text("SELECT count(*) FROM outbox"))).scalar_one() == 1
        await connection.execute(text("SELECT pg_terminate_backend(:pid, 60000)"), {"pid": pid})
    assert driver is not None
    async with asyncio.timeout(60):
        while not driver.is_closed():  # noqa: ASYNC110  # its server's end has yet to be heard of
            await asyncio.sleep(0.01)
    async with database.statement() as connection:
        assert (await connection.execute(text("SELECT pg_backend_pid()"))).scalar_one() != pid
    await database.close()
    await other.close()


async def test_a_lane_runs_what_a_connection_runs_and_comes_back_when_it_was_lost(database_url: str) -> None:
    database = Database(database_url, name="test-lane", pool_size=1, role=None)
    asks = Prepared("SELECT CAST(:b AS int) - CAST(:a AS int), CAST(:b AS int)")
    values = {"a": 2, "b": 9}
    await database.lane.ready()
    async with database.transaction() as connection:
        for on in (connection, database.lane):
            [row] = await rows_of(on, asks, values)
            assert (row[0], row[1]) == (7, 9)
    with pytest.raises(asyncpg.PostgresError) as lost:
        await rows_of(database.lane, Prepared("SELECT pg_terminate_backend(pg_backend_pid())"), {})
    assert is_unavailable(lost.value)
    with pytest.raises(asyncpg.InterfaceError) as closed:
        await rows_of(database.lane, asks, values)
    assert is_unavailable(closed.value)
    await database.lane.ready()
    assert len(await rows_of(database.lane, asks, values)) == 1
    with pytest.raises(asyncpg.exceptions.DataError) as mistake:
        await rows_of(database.lane, asks, {"a": "two", "b": 1})
    assert not is_unavailable(mistake.value)
    await database.close()


async def test_statements_on_a_lane_take_turns(database_url: str) -> None:
    database = Database(database_url, name="test-lane", pool_size=1)
    await database.lane.ready()
    slow = Prepared("SELECT :n, pg_sleep(0.01)".replace(":n", "CAST(:n AS int)"))
    rows = await asyncio.gather(*(rows_of(database.lane, slow, {"n": number}) for number in range(5)))
    assert [row[0][0] for row in rows] == list(range(5))
    await database.close()


@pytest.mark.parametrize("late", [True, False])
async def test_a_server_that_does_not_answer_is_given_up_and_the_connection_replaced(
    database_url: str, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    """Packets are lost: no error comes, on the lane or in the pool. What was asked meanwhile may arrive later."""
    monkeypatch.setattr("gateway.db.ANSWER_MARGIN_S", 0.2)
    proxy = TcpProxy(database_url)
    await proxy.restore()
    options = DatabaseSettings(connect_timeout_s=20, statement_timeout_s=2)
    database = Database(proxy.url, name="test", pool_size=1, role=None, options=options)
    asks = Prepared("SELECT pg_backend_pid()")
    before = [await _answer(lambda: _lane_pid(database)), await _answer(lambda: _pool_pid(database))]
    assert before[0] == database.lane.pid
    proxy.be_silent()
    with pytest.raises(TimeoutError) as lost:
        await rows_of(database.lane, asks, {})
    with pytest.raises(TimeoutError):
        await _pool_pid(database)
    assert is_unavailable(lost.value)
    assert not was_refused(lost.value)
    proxy.speak(late=late)
    after = [await _answer(lambda: _lane_pid(database)), await _answer(lambda: _pool_pid(database))]
    await database.close()
    await proxy.cut()
    assert not set(before) & set(after)


async def test_a_session_that_was_given_up_is_ended_by_a_process_that_logs_in_alike(
    database_url: str,
) -> None:
    """As the application's role, which may not do so by itself. Nobody else's session is touched."""
    database = Database(database_url, name="test-own", pool_size=2)
    other = Database(database_url, name="test-other", pool_size=1)
    loop = asyncio.get_running_loop()
    await database.lane.ready()
    await other.lane.ready()
    lost = Backend(database.lane.pid, loop.time())
    assert await database.has_ended(Backend(other.lane.pid, loop.time()))
    assert await database.has_ended(Backend(lost.pid, loop.time() - 3600)), "its namesake of an hour ago"
    assert (await rows_of(database.lane, Prepared("SELECT 1"), {}))[0][0] == 1
    assert not await database.has_ended(lost)
    async with asyncio.timeout(60):
        while not await database.has_ended(lost):  # noqa: ASYNC110  (the server has no event)
            await asyncio.sleep(0.01)
    assert (await rows_of(other.lane, Prepared("SELECT current_user"), {}))[0][0] == "tollway_app"
    async with database.transaction() as connection:
        assert (await connection.execute(text("SELECT current_user"))).scalar_one() == "tollway_app"
    await database.close()
    await other.close()


async def _answer(ask: Callable[[], Awaitable[int]]) -> int:
    """Within the limits of the test, which a slow machine may miss now and then."""
    async with asyncio.timeout(60):
        while True:
            with suppress(TimeoutError):
                return await ask()


async def _lane_pid(database: Database) -> int:
    await database.lane.ready()
    return int((await rows_of(database.lane, Prepared("SELECT pg_backend_pid()"), {}))[0][0])


async def _pool_pid(database: Database) -> int:
    async with database.transaction() as connection:
        return int((await connection.execute(text("SELECT pg_backend_pid()"))).scalar_one())


async def test_a_lane_whose_statement_was_cut_off_connects_anew(database_url: str) -> None:
    """The server may never answer what nobody waits for: the next one must not wait behind it."""
    database = Database(database_url, name="test-lane", pool_size=1)
    await database.lane.ready()
    slow = asyncio.create_task(rows_of(database.lane, Prepared("SELECT pg_sleep(600)"), {}))
    await asyncio.sleep(0)
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow
    await database.lane.ready()
    [row] = await rows_of(database.lane, Prepared("SELECT 7"), {})
    assert row[0] == 7
    await database.close()
