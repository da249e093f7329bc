"""What errors of a real server mean."""

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from gateway.db import Database, Prepared, is_busy, is_unavailable, reason, rows_of, was_refused

RAISE = "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{}'; END $$"
END_ITSELF = "SELECT pg_terminate_backend(pg_backend_pid())"


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (RAISE.format("lock_not_available"), (True, True, True)),
        (RAISE.format("query_canceled"), (True, True, True)),
        (RAISE.format("disk_full"), (True, False, True)),
        (RAISE.format("unique_violation"), (False, False, True)),
        (END_ITSELF, (True, False, False)),
    ],
)
async def test_what_the_server_said_is_told_from_what_it_did_not_say(
    database_url: str, statement: str, expected: tuple[bool, bool, bool]
) -> None:
    """Unavailable, busy, refused: alike on a lane and through SQLAlchemy."""
    database = Database(database_url, name="test", pool_size=1, role=None)
    await database.lane.ready()
    with pytest.raises(asyncpg.PostgresError) as on_lane:
        await rows_of(database.lane, Prepared(statement), {})
    with pytest.raises(DBAPIError) as in_transaction:
        async with database.transaction() as connection:
            await connection.execute(text(statement))
    await database.close()
    for error in (on_lane.value, in_transaction.value):
        assert (is_unavailable(error), is_busy(error), was_refused(error)) == expected


def test_an_error_that_says_nothing_is_named_with_what_led_to_it() -> None:
    silent = RuntimeError()
    assert reason(silent) == "RuntimeError"
    silent.__cause__ = TimeoutError()
    assert reason(silent) == "RuntimeError: TimeoutError"
    silent.__cause__ = OSError("no route")
    assert reason(silent) == "RuntimeError: no route"
    assert not was_refused(silent)
