"""Usage events for tests of what reads them: written as the ledger writes them, folded as the worker folds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from gateway.db import Database
from gateway.ids import IdSource
from gateway.ledger.batcher import commit_batch
from gateway.ledger.pricing import charge
from gateway.ledger.repository.rollups import fold_usage
from gateway.ledger.repository.settling import (
    EventRow,
    attempt_rows,
    ensure_partition,
    event_row,
    month_of,
    settle_all,
    write_events,
)
from gateway.ledger.types import Hold, Settlement
from gateway.slo.repository.counts import count_answers
from tests.gateway.ledger.builders import reservation, settlement


def settled(
    number: int, at: datetime, *, tokens: tuple[int, int, int] = (10, 0, 5), asked: Any = None, **ending: Any
) -> Settlement:
    """One request with `tokens` = (prompt, cached of them, completion); `asked` are fields of its reservation."""
    hold = Hold(reservation(f"req_{number:06d}", **(asked or {})), 0, (), at, at)
    prompt, cached, completion = tokens
    return settlement(hold, at, prompt=prompt, completion=completion, cached=cached, **ending)


async def write(database: Database, settlements: Sequence[Settlement], fold: bool = True) -> list[EventRow]:
    """The events of settlements nobody has a hold for, and their rollups."""
    ids = IdSource()
    events = [
        event_row(one, ids.uuid7(), charge(one.hold.reservation.prices, one.attempts), 0, None)
        for one in settlements
    ]
    async with database.transaction() as connection:
        for month in sorted({month_of(one.occurred_at) for one in settlements}):
            await ensure_partition(connection, month)
        await settle_all(connection, events, [row for one in settlements for row in attempt_rows(one)], {})
    if fold:
        await fold_all(database)
    return events


async def correct(database: Database, event: EventRow, **differences: int) -> EventRow:
    """A correction of an event: signed differences, at the time of the event."""
    zeros = {name: 0 for name in event if name.endswith(("_tokens", "_nanousd"))}
    changed: EventRow = {
        **event,
        **zeros,
        **differences,
        "event_id": _new_id(),
        "corrects": event["event_id"],
    }
    changed["amount_nanousd"] = sum(
        changed[f"{part}_nanousd"] for part in ("input", "cached_input", "output")
    )
    async with database.transaction() as connection:
        await write_events(connection, [changed], [])
    await fold_all(database)
    return changed


async def fold_all(database: Database) -> None:
    async def fold(connection: Any, limits: Sequence[int]) -> list[int]:
        return [await fold_usage(connection, limit, (count_answers,)) for limit in limits]

    while True:
        (done,) = await commit_batch(database, [500], fold)
        if isinstance(done, Exception):
            raise done
        if not done:
            return


def as_kind(one: Settlement, **changes: Any) -> Settlement:
    """The same settlement with other fields."""
    return replace(one, **changes)


def _new_id() -> UUID:
    return IdSource().uuid7()
