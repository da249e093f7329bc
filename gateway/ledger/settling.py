"""Settle: what one batch of ended requests does to the database, exactly once per request.

The order within the transaction: the guard (sorted by request id), the holds, the facts, and last the budget rows
(sorted by key), which everybody waits for. It does not know where operations come from or what happens when the server is away.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from gateway.db import Database, WriteConnection
from gateway.ids import IdSource, RequestId
from gateway.ledger.decide import Release, sum_releases
from gateway.ledger.pricing import charge
from gateway.ledger.repository.budgets import apply_sums, create_rows, limits_of
from gateway.ledger.repository.holds import delete_holds
from gateway.ledger.repository.settling import (
    EventRow,
    attempt_rows,
    claim,
    ensure_partition,
    event_row,
    lock_provisional,
    mark_corrected,
    month_of,
    write_events,
)
from gateway.ledger.types import Charge, Settlement, Take
from gateway.obs.failpoints import failpoint

__all__ = ["Operation", "Outcome", "SettleBatch", "apply_to_budgets"]

Outcome = Literal["settled", "duplicate", "corrected", "discarded"]


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
        """Partitions for the months of these settlements exist when this returns; usually it does nothing."""
        months = {month_of(op.settlement.occurred_at) for op in operations if op.settlement} - self._months
        for month in sorted(months):
            async with database.transaction() as connection:
                await ensure_partition(connection, month)
            self._months.add(month)

    async def apply(self, connection: WriteConnection, operations: Sequence[Operation]) -> list[Outcome]:
        firsts: dict[RequestId, _Charged] = {}
        again: list[_Charged] = []
        for settlement in sorted(_settlements(operations), key=lambda one: one.request_id):
            charged = self._charged(settlement)
            if firsts.setdefault(settlement.request_id, charged) is not charged:
                again.append(charged)
        claimed = await self._settle(connection, firsts, [op.discard for op in operations if op.discard])
        again += [charged for request_id, charged in firsts.items() if request_id not in claimed]
        corrected = {id(one.settlement) for one in again if await self._correct(connection, one)}
        winners = {id(firsts[request_id].settlement) for request_id in claimed}
        failpoint("settle.before_commit")
        return [_outcome(op, winners, corrected) for op in operations]

    async def _settle(
        self, connection: WriteConnection, firsts: Mapping[RequestId, _Charged], discards: Sequence[RequestId]
    ) -> Collection[RequestId]:
        claimed: Mapping[RequestId, tuple[Take, ...] | None] = {}
        releases: list[Release] = []
        if firsts:
            claimed = await claim(
                connection,
                [one.event for one in firsts.values()],
                [one.settlement.is_provisional for one in firsts.values()],
            )
        if discards:
            freed = await delete_holds(connection, discards)
            releases += [Release(takes, is_hold_open=True, spent_nanousd=0) for takes in freed]
        fresh = [firsts[request_id] for request_id in claimed]
        late = await _takes_without_hold(
            connection, [one for one in fresh if not one.settlement.hold.is_recorded]
        )
        for one in fresh:
            open_takes = claimed[one.settlement.request_id]
            takes = open_takes or one.settlement.hold.takes or late.get(one.settlement.request_id, ())
            releases.append(Release(takes, open_takes is not None, one.charge.amount_nanousd))
        if fresh:
            attempts = [row for one in fresh for row in attempt_rows(one.settlement)]
            await write_events(connection, [one.event for one in fresh], attempts)
        await apply_to_budgets(connection, releases)
        return claimed.keys()

    async def _correct(self, connection: WriteConnection, late: _Charged) -> bool:
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
        await write_events(connection, [event], attempt_rows(settlement))
        await mark_corrected(connection, settlement.request_id)
        await apply_to_budgets(connection, [Release(takes, False, difference.amount_nanousd)])
        return True

    def _charged(self, settlement: Settlement) -> _Charged:
        priced = charge(settlement.hold.reservation.prices, settlement.attempts)
        event = event_row(settlement, self._ids.uuid7(), priced, settlement.reasoning_tokens, corrects=None)
        return _Charged(settlement, priced, event)


def _settlements(operations: Sequence[Operation]) -> list[Settlement]:
    return [op.settlement for op in operations if op.settlement is not None]


def _outcome(operation: Operation, winners: Collection[int], corrected: Collection[int]) -> Outcome:
    if operation.settlement is None:
        return "discarded"
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
            for limit in limits
            if limit.covers(hold.reservation.tenant_id, hold.reservation.key_id)
        )
        for request_id, hold in asked.items()
    }


async def apply_to_budgets(connection: WriteConnection, releases: Sequence[Release]) -> None:
    """The last statement of a transaction: everybody waits for these rows."""
    sums = sum_releases(releases)
    if not sums:
        return
    if missing := await apply_sums(connection, sums):
        await create_rows(connection, missing)
        await apply_sums(connection, {key: sums[key] for key in missing})


def _difference(better: Charge, charged: Charge) -> Charge:
    return Charge(
        prompt_uncached_tokens=better.prompt_uncached_tokens - charged.prompt_uncached_tokens,
        prompt_cached_tokens=better.prompt_cached_tokens - charged.prompt_cached_tokens,
        completion_tokens=better.completion_tokens - charged.completion_tokens,
        input_nanousd=better.input_nanousd - charged.input_nanousd,
        cached_input_nanousd=better.cached_input_nanousd - charged.cached_input_nanousd,
        output_nanousd=better.output_nanousd - charged.output_nanousd,
    )
