"""What became of lines in the hands of workers that are gone: which id to run a line under so that it is paid for once.

A line is run as one request after another only if the one before ended without anything to pay. So of its ids the last
that left a trace counts: paid for, it is run again at nobody's cost under that id, which the ledger does not charge
twice; ended and unpaid, the next one is used; held, the hold goes back and the id is used. Pure but for the look-up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.batches.naming import request_id
from gateway.db import WriteConnection
from gateway.ids import RequestId
from gateway.ledger.repository.traces import Trace, traces_of

__all__ = ["FRESH", "Past", "past_of", "pasts_of"]

RUNS_AT_ONCE = 8
"""How many ids of a line are looked up together; when all of them were used, as many more."""


@dataclass(frozen=True, slots=True)
class Past:
    run: int = 0
    is_paid: bool = False
    holds: tuple[RequestId, ...] = ()
    """To be given back before the line is run."""


FRESH = Past()


async def pasts_of(connection: WriteConnection, batch_id: str, lines: Sequence[int]) -> Mapping[int, Past]:
    """Of those lines that left a trace."""
    first = {request_id(batch_id, line, 0): line for line in lines}
    found = {}
    for asked in await traces_of(connection, list(first)):
        line = first[asked]
        found[line] = past_of(await _all_traces(connection, batch_id, line))
    return found


async def _all_traces(connection: WriteConnection, batch_id: str, line: int) -> Sequence[Trace]:
    """In the order of the runs, which have no gaps."""
    traces: list[Trace] = []
    while True:
        ids = [request_id(batch_id, line, len(traces) + ahead) for ahead in range(RUNS_AT_ONCE)]
        found = await traces_of(connection, ids)
        for one in ids:
            if one not in found:
                return traces
            traces.append(found[one])


def past_of(traces: Sequence[Trace]) -> Past:
    holds = tuple(trace.request_id for trace in traces if trace.has_hold)
    for run, trace in enumerate(traces):
        if trace.is_paid:
            return Past(run, is_paid=True, holds=holds)
    if not traces:
        return FRESH
    last = len(traces) - 1
    return Past(last + 1 if traces[last].is_settled else last, holds=holds)
