"""What is known of requests: held, ended, paid for."""

from __future__ import annotations

from datetime import UTC, datetime

from gateway.db import Database
from gateway.ids import RequestId
from gateway.ledger.repository.traces import Trace, traces_of
from tests.gateway.books import Books, MakeLedger
from tests.gateway.ledger.builders import reservation
from tests.gateway.usage_events import settled, write


async def test_traces_tell_what_was_paid_for(books: Books, make_ledger: MakeLedger) -> None:
    database: Database = books.database
    now = datetime.now(UTC)
    nothing = (0, 0, 0)
    await write(
        database,
        [
            settled(1, now),
            settled(2, now, tokens=nothing, status="error"),
            settled(3, now, tokens=nothing, status="ok"),
        ],
    )
    ledger = await make_ledger()
    await ledger.reserve(reservation("req_000004"))
    asked = [RequestId(f"req_{number:06d}") for number in range(6)]
    async with database.transaction() as connection:
        found = await traces_of(connection, asked)
    assert found == {
        asked[1]: Trace(asked[1], False, True, True),
        asked[2]: Trace(asked[2], False, True, False),
        asked[3]: Trace(asked[3], False, True, True),
        asked[4]: Trace(asked[4], True, False, False),
    }
    await ledger.give_back([asked[4]])
    async with database.transaction() as connection:
        assert await traces_of(connection, asked[4:]) == {}
    ledger.release(asked[4], "test")
