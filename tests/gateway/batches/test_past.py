"""Which id a line is run under, after whatever happened before."""

from __future__ import annotations

import pytest

from gateway.batches.naming import request_id
from gateway.batches.past import FRESH, Past, past_of, pasts_of
from gateway.db import Database
from gateway.ids import RequestId
from gateway.ledger.repository.traces import Trace

H, E, P, HP = (True, False, False), (False, True, False), (False, True, True), (True, True, True)


@pytest.mark.parametrize(
    ("traces", "run", "is_paid", "holds"),
    [
        ([], 0, False, []),
        ([H], 0, False, [0]),  # in flight when its gateway died
        ([E], 1, False, []),  # an error that nobody paid for
        ([P], 0, True, []),  # settled from the journal meanwhile
        ([HP], 0, True, [0]),  # run again at nobody's cost, and killed again
        ([E, E, H], 2, False, [2]),
        ([H, H], 1, False, [0, 1]),  # the settlement of the error was lost with its gateway
        ([E, P, H], 1, True, [2]),
    ],
)
def test_a_line_is_paid_for_once(
    traces: list[tuple[bool, bool, bool]], run: int, is_paid: bool, holds: list[int]
) -> None:
    known = [Trace(RequestId(f"req_{number}"), *trace) for number, trace in enumerate(traces)]
    wanted = Past(run, is_paid, tuple(RequestId(f"req_{number}") for number in holds))
    assert past_of(known) == wanted


async def test_runs_are_followed_however_many_there_were(database: Database) -> None:
    async with database.transaction() as connection:
        for run in range(19):
            await connection.exec_driver_sql(
                "INSERT INTO settled_request (request_id, tenant_id, event_id, occurred_at, is_provisional)"
                f" VALUES ('{request_id('batch_1', 4, run)}', 'proj_a', gen_random_uuid(), now(), false)"
            )
        assert await pasts_of(connection, "batch_1", [3, 4, 5]) == {4: Past(19)}
        assert await pasts_of(connection, "batch_2", [4]) == {}
    assert Past(0) == FRESH
