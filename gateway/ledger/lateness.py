"""Settlements that come late: booked in the open period if their own is closed, and listed for review if they are so
old that the guard may have forgotten their request.

What happened within the last day needs no look, so the ordinary batch pays nothing for this. It does not know how
a batch is committed.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from gateway.db import WriteConnection
from gateway.ids import RequestId
from gateway.ledger.closing import OPEN_FOR_SURE
from gateway.ledger.horizon import EVIDENCE_AGE_MAX
from gateway.ledger.repository.closing import closed_before
from gateway.ledger.repository.review import ReviewNote, write_notes
from gateway.ledger.repository.settling import EventRow, known_requests
from gateway.ledger.types import Settlement

__all__ = ["Booking", "is_fresh", "look_back"]


@dataclass(frozen=True, slots=True)
class Booking:
    """When events of a batch are booked, and what of the batch must not be."""

    at: datetime
    closed_before: datetime | None = None
    stale: frozenset[RequestId] = frozenset()

    def place(self, event: EventRow) -> EventRow:
        """The event where it happened, or as an adjustment in the open period."""
        happened_at = event["occurred_at"]
        if self.closed_before is None or happened_at >= self.closed_before:
            return event
        return {**event, "occurred_at": self.at, "late_from": happened_at}


def is_fresh(settlement: Settlement, now: datetime) -> bool:
    """Its period is open for sure, and its guard is remembered."""
    return settlement.occurred_at > now - OPEN_FOR_SURE


async def look_back(connection: WriteConnection, settlements: Sequence[Settlement], now: datetime) -> Booking:
    """In the transaction that books them: until it ends no period closes."""
    old = [one for one in settlements if not is_fresh(one, now)]
    if not old:
        return Booking(now)
    closed = await closed_before(connection)
    doubtful = [one for one in old if one.occurred_at < now - EVIDENCE_AGE_MAX]
    stale = await _list_unknown(connection, doubtful) if doubtful else frozenset()
    return Booking(now, closed, stale)


async def _list_unknown(
    connection: WriteConnection, doubtful: Collection[Settlement]
) -> frozenset[RequestId]:
    """A request with a hold was never settled, one with a guard was: the others are for a person."""
    known = await known_requests(connection, [one.request_id for one in doubtful])
    unknown = [one for one in doubtful if one.request_id not in known]
    await write_notes(connection, [_note(one) for one in unknown])
    return frozenset(one.request_id for one in unknown)


def _note(settlement: Settlement) -> ReviewNote:
    asked = settlement.hold.reservation
    return ReviewNote(
        "stale_settlement",
        asked.request_id,
        request_id=asked.request_id,
        tenant_id=asked.tenant_id,
        details={"settlement": msgspec.to_builtins(settlement)},
    )
