"""Settle: what one batch of ended requests does to the database, exactly once per request.

The order within the statement: the guard (sorted by request id), the holds, the facts, and last the budget rows
(sorted by key), which everybody waits for. It does not know where operations come from or what happens when the
server is away.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal

from gateway.db import Database, Lane, WriteConnection
from gateway.ids import IdSource, RequestId
from gateway.ledger.batcher import commit_at_once, commit_batch
from gateway.ledger.lateness import Booking, is_fresh, look_back
from gateway.ledger.pricing import charge
from gateway.ledger.repository.budgets import limits_of, spend
from gateway.ledger.repository.leases import draw_leases
from gateway.ledger.repository.settling import (
    EventRow,
    attempt_rows,
    ensure_partition,
    event_row,
    lock_provisional,
    mark_corrected,
    month_of,
    settle_all,
    write_events,
)
from gateway.ledger.types import Charge, Hold, Settlement, Take
from gateway.obs.failpoints import failpoint

__all__ = ["Operation", "Outcome", "SettleBatch"]

Outcome = Literal["settled", "duplicate", "corrected", "discarded", "listed"]
"""`listed`: too old to settle by itself, on the review list."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A settlement, or a request whose hold is to be given back because nobody uses it."""

    settlement: Settlement | None = None
    discard: RequestId | None = None

    @property
    def request_id(self) -> RequestId:
        if self.settlement is not None:
            return self.settlement.request_id
        assert self.discard is not None
        return self.discard


@dataclass(frozen=True, slots=True)
class _Charged:
    """A settlement with its price and its event row."""

    settlement: Settlement
    charge: Charge
    event: EventRow


class SettleBatch:
    """Applies batches. Remembers which months have a partition; otherwise it has no state."""

    def __init__(self, ids: IdSource) -> None:
        self._ids = ids
        self._months: set[date] = set()

    async def prepare(self, database: Database, operations: Collection[Operation]) -> None:
        """Partitions for the months of these settlements exist when this returns, and that of now, where late ones may
        be booked; usually it does nothing."""
        months = {month_of(op.settlement.occurred_at) for op in operations if op.settlement}
        for month in sorted((months | {month_of(self._ids.clock.now())}) - self._months):
            async with database.transaction() as connection:
                await ensure_partition(connection, month)
            self._months.add(month)

    async def commit(self, database: Database, operations: Sequence[Operation]) -> list[Outcome | Exception]:
        """In one statement what is settled for the first time. What was settled before, comes twice or late, or must
        look for its budget rows goes through a transaction, and so does everything if the server refuses the
        statement."""
        await self.prepare(database, operations)
        plain = _plain(operations, self._ids.clock.now())
        results: dict[int, Outcome | Exception] = {**await self._commit_at_once(database, plain)}
        rest = [op for op in operations if id(op) not in results]
        if rest:
            outcomes = await commit_batch(database, rest, self.apply)
            results.update((id(op), outcome) for op, outcome in zip(rest, outcomes, strict=True))
        return [results[id(op)] for op in operations]

    async def _commit_at_once(self, database: Database, plain: Sequence[Operation]) -> dict[int, Outcome]:
        if not plain:
            return {}
        booking = Booking(self._ids.clock.now())
        charged = {one.request_id: self._charged(one, booking) for one in _settlements(plain)}
        discards = [op.discard for op in plain if op.discard is not None]
        failpoint("settle.before_commit")
        settled = await commit_at_once(
            database, lambda connection: _settle(connection, charged, discards, {})
        )
        if settled is None:
            return {}
        results: dict[int, Outcome] = {id(op): "discarded" for op in plain if op.settlement is None}
        results.update((id(op), "settled") for op in plain if op.settlement and op.request_id in settled)
        return results

    async def apply(self, connection: WriteConnection, operations: Sequence[Operation]) -> list[Outcome]:
        """In the caller's transaction, after `prepare`."""
        firsts: dict[RequestId, _Charged] = {}
        again: list[_Charged] = []
        booking = await look_back(connection, _settlements(operations), self._ids.clock.now())
        wanted = [one for one in _settlements(operations) if one.request_id not in booking.stale]
        for settlement in sorted(wanted, key=lambda one: one.request_id):
            charged = self._charged(settlement, booking)
            if firsts.setdefault(settlement.request_id, charged) is not charged:
                again.append(charged)
        late = await _takes_without_hold(
            connection, [one for one in firsts.values() if not one.settlement.hold.is_recorded]
        )
        discards = [op.discard for op in operations if op.discard]
        claimed = await _settle(connection, firsts, discards, late)
        await _draw(connection, [firsts[request_id].settlement.hold for request_id in claimed])
        again += [charged for request_id, charged in firsts.items() if request_id not in claimed]
        corrected = {id(one.settlement) for one in again if await self._correct(connection, one, booking)}
        winners = {id(firsts[request_id].settlement) for request_id in claimed}
        failpoint("settle.before_commit")
        return [_outcome(op, winners, corrected, booking.stale) for op in operations]

    async def _correct(self, connection: WriteConnection, late: _Charged, booking: Booking) -> bool:
        """Better evidence about a request that was settled provisionally: charge the signed difference, once."""
        settlement = late.settlement
        if settlement.is_provisional:
            return False
        fact = await lock_provisional(connection, settlement.request_id)
        if fact is None:
            return False
        difference = _difference(late.charge, fact.charge)
        reasoning = settlement.reasoning_tokens - fact.reasoning_tokens
        takes = settlement.hold.takes
        if not takes:
            takes = (await _takes_without_hold(connection, [late])).get(settlement.request_id, ())
        event = event_row(settlement, self._ids.uuid7(), difference, reasoning, corrects=fact.event_id)
        await write_events(connection, [booking.place(event)], attempt_rows(settlement))
        await mark_corrected(connection, settlement.request_id)
        await spend(connection, {take.key: difference.amount_nanousd for take in takes})
        return True

    def _charged(self, settlement: Settlement, booking: Booking) -> _Charged:
        priced = charge(settlement.hold.reservation.prices, settlement.attempts)
        event = event_row(settlement, self._ids.uuid7(), priced, settlement.reasoning_tokens, corrects=None)
        return _Charged(settlement, priced, booking.place(event))


async def _settle(
    connection: WriteConnection | Lane,
    firsts: Mapping[RequestId, _Charged],
    discards: Sequence[RequestId],
    late: Mapping[RequestId, tuple[Take, ...]],
) -> set[RequestId]:
    """`late`: the budget rows of requests that were admitted without looking for them."""
    settlements = [one.settlement for one in firsts.values()]
    return await settle_all(
        connection,
        [one.event for one in firsts.values()],
        [row for one in settlements for row in attempt_rows(one)],
        {one.request_id: one.hold.takes or late.get(one.request_id, ()) for one in settlements},
        provisional=[one.request_id for one in settlements if one.is_provisional],
        discards=discards,
    )


async def _draw(connection: WriteConnection, settled: Sequence[Hold]) -> None:
    """What was admitted under a lease leaves it in the transaction that charges it."""
    drawn: dict[RequestId, int] = defaultdict(int)
    for hold in settled:
        if hold.lease_id is not None:
            drawn[hold.lease_id] += hold.amount_nanousd
    await draw_leases(connection, drawn)


def _settlements(operations: Sequence[Operation]) -> list[Settlement]:
    return [op.settlement for op in operations if op.settlement is not None]


def _plain(operations: Sequence[Operation], now: datetime) -> list[Operation]:
    """What needs no look at anything else: discards, and the first fresh settlement of each request that has a hold."""
    seen: set[RequestId] = set()
    plain = []
    for op in operations:
        if op.settlement is None:
            plain.append(op)
        elif op.settlement.hold.is_recorded and is_fresh(op.settlement, now) and op.request_id not in seen:
            seen.add(op.request_id)
            plain.append(op)
    return plain


def _outcome(
    operation: Operation, winners: Collection[int], corrected: Collection[int], stale: Collection[RequestId]
) -> Outcome:
    if operation.settlement is None:
        return "discarded"
    if operation.request_id in stale:
        return "listed"
    if id(operation.settlement) in winners:
        return "settled"
    return "corrected" if id(operation.settlement) in corrected else "duplicate"


async def _takes_without_hold(
    connection: WriteConnection, charged: Sequence[_Charged]
) -> dict[RequestId, tuple[Take, ...]]:
    """The budget rows of requests that were admitted while the server was away: those of their time."""
    if not charged:
        return {}
    asked = {one.settlement.request_id: one.settlement.hold for one in charged}
    limits = await limits_of(
        connection,
        {hold.reservation.tenant_id for hold in asked.values()},
        {hold.reservation.key_id for hold in asked.values()},
    )
    return {
        request_id: tuple(
            Take(*limit.key_at(hold.reserved_at), amount_nanousd=0)
            for limit in limits.on(hold.reservation.tenant_id, hold.reservation.key_id)
        )
        for request_id, hold in asked.items()
    }


def _difference(better: Charge, charged: Charge) -> Charge:
    return Charge(
        prompt_uncached_tokens=better.prompt_uncached_tokens - charged.prompt_uncached_tokens,
        prompt_cached_tokens=better.prompt_cached_tokens - charged.prompt_cached_tokens,
        completion_tokens=better.completion_tokens - charged.completion_tokens,
        input_nanousd=better.input_nanousd - charged.input_nanousd,
        cached_input_nanousd=better.cached_input_nanousd - charged.cached_input_nanousd,
        output_nanousd=better.output_nanousd - charged.output_nanousd,
    )
