"""Reserve: a batch of reservations decided against locked budget rows, and the loop that feeds it.

A reservation whose caller has left (deadline, disconnect) and that commits all the same is discarded again; where
nobody knows whether it has committed, once the session that may yet do so has ended. It does not know how requests are
answered, only that a hold or an error is due before a deadline.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal

from gateway.clock import Clock
from gateway.db import DATABASE_ERRORS, Backend, Database, WriteConnection, reason
from gateway.ids import IdSource, KeyId, PoolId, RequestId, RouteId, TenantId
from gateway.ledger.batcher import (
    BatchQueue,
    CommitUnknown,
    QueueFull,
    commit_at_once,
    commit_batch,
    serve,
)
from gateway.ledger.decide import Ask, BudgetRow, decide, sum_of
from gateway.ledger.errors import BudgetExceeded, LedgerUnavailable, ReservationFailed
from gateway.ledger.known import KnownLimits
from gateway.ledger.leases import LEASE_TTL, Granted, Leases
from gateway.ledger.outage import Outage
from gateway.ledger.pricing import upper_bound_nanousd
from gateway.ledger.repository.budgets import BudgetLimit, create_rows, limits_of, lock_rows
from gateway.ledger.repository.holds import insert_holds, take_all, take_if_room
from gateway.ledger.types import BudgetKey, Hold, Prices, Reservation, Take
from gateway.ledger.used_up import UsedUp
from gateway.obs.failpoints import failpoint
from gateway.obs.logging import get_logger
from gateway.obs.metrics import Children, Metrics

__all__ = ["Reserver"]

BATCH_MAX = 256
QUEUE_MAX = 4096


@dataclass(eq=False, slots=True)
class _Asked:
    reservation: Reservation
    amount_nanousd: int
    reply: "asyncio.Future[Hold]"
    is_abandoned: bool = False
    is_lease: bool = False


@dataclass(frozen=True, slots=True)
class _Doubt:
    """Holds that may have been committed or may yet be, by a session that did not answer."""

    request_ids: tuple[RequestId, ...]
    backend: Backend | None


class Reserver:
    """Owns the reserve batcher of a process. `discard` is given requests whose hold nobody will use."""

    def __init__(
        self,
        database: Database,
        *,
        instance_id: str,
        clock: Clock,
        ids: IdSource,
        metrics: Metrics,
        outage: Outage,
        leases: Leases,
        timeout_s: float,
        hold_ttl_s: float,
        discard: Callable[[RequestId], None],
    ) -> None:
        self._database = database
        self._instance_id = instance_id
        self._clock = clock
        self._outcomes = Children(metrics.ledger_operations)
        self._commit_seconds = metrics.ledger_commit_seconds.labels("reserve")
        self._batch_size = metrics.ledger_batch_size.labels("reserve")
        self._ids = ids
        self._outage = outage
        self._leases = leases
        self._timeout_s = timeout_s
        self._hold_ttl = timedelta(seconds=hold_ttl_s)
        self._discard = discard
        self._queue: BatchQueue[_Asked] = BatchQueue(capacity=QUEUE_MAX, batch_max=BATCH_MAX)
        self._known = KnownLimits()
        self._doubts: list[_Doubt] = []
        self._resolving = asyncio.Lock()
        self._under_way_since_s: float | None = None
        self.used_up = UsedUp()
        self._log = get_logger(__name__)

    async def reserve(self, reservation: Reservation) -> Hold:
        """A committed hold, or BudgetExceeded, or LedgerUnavailable at the deadline."""
        return await self._ask(_Asked(reservation, upper_bound_nanousd(reservation), _reply()))

    async def lease(self, tenant_id: TenantId, amount_nanousd: int) -> Granted | None:
        """A hold for what is admitted while the database is away; None if the budgets have no room for it."""
        asked = _Asked(_lease_of(self._ids, tenant_id), amount_nanousd, _reply(), is_lease=True)
        try:
            hold = await self._ask(asked)
        except (BudgetExceeded, LedgerUnavailable):
            return None
        limits = self._known.on(asked.reservation)
        if limits is None:
            self._discard(hold.request_id)
            return None
        return Granted(hold, limits)

    async def _ask(self, asked: _Asked) -> Hold:
        try:
            self._queue.put_nowait(asked)
            deadline = asyncio.get_running_loop().call_later(self._timeout_s, _expire, asked)
            try:
                return await asked.reply
            finally:
                deadline.cancel()
        except QueueFull:
            raise LedgerUnavailable from None
        except (CommitUnknown, *DATABASE_ERRORS) as error:
            self._abandon(asked)
            if self._is_silent:
                self._outage.suspect()
            return self._without_database(asked, error)
        except asyncio.CancelledError:
            self._abandon(asked)
            raise

    @property
    def _is_silent(self) -> bool:
        """The batch under way has waited for most of the time that a caller waits: it is not the line that is long."""
        since_s = self._under_way_since_s
        return since_s is not None and self._clock.monotonic() - since_s > self._timeout_s / 2

    async def run(self) -> None:
        await serve(self._queue, self._commit, self._lose, self._log)

    async def resolve_doubts(self) -> bool:
        """Give back what nobody can commit any more; true if nothing is in doubt then. A discard that came first would
        find no hold, and the statement that makes it might still be under way."""
        async with self._resolving:
            for doubt in tuple(self._doubts):
                if await self._is_over(doubt):
                    self._doubts.remove(doubt)
                    for request_id in doubt.request_ids:
                        self._discard(request_id)
            return not self._doubts

    def close(self) -> None:
        """Admit nothing more; `run` ends when what waits is committed."""
        self._queue.close()

    async def _commit(self, batch: list[_Asked]) -> None:
        wanted = [asked for asked in batch if not asked.is_abandoned]
        if not wanted:
            return
        self._under_way_since_s = started_s = self._clock.monotonic()
        try:
            results = await self._decide(wanted)
        except (CommitUnknown, *DATABASE_ERRORS) as error:
            self._outage.begin(error)
            if isinstance(error, CommitUnknown):
                self._doubt(wanted, error.backend)
            self._give_up(wanted, error)
            return
        finally:
            self._under_way_since_s = None
        failpoint("reserve.committed")
        self._outage.end()
        self._commit_seconds.observe(self._clock.monotonic() - started_s)
        self._batch_size.observe(len(wanted))
        for asked, result in zip(wanted, results, strict=True):
            self._answer(asked, result)

    async def _decide(self, batch: Sequence[_Asked]) -> "Sequence[Hold | BudgetRow | Exception]":
        results = await self._at_once(batch)
        if results == "stale":
            await self._learn(batch)
            results = await self._at_once(batch)
        if isinstance(results, str):
            return await commit_batch(self._database, batch, self._apply)
        return results

    async def _at_once(
        self, batch: Sequence[_Asked]
    ) -> "Sequence[Hold | BudgetRow] | Literal['stale', 'divided']":
        """In one statement, if the whole batch fits; else a second one says why nothing of it was taken. `stale`: the
        limits have changed, or a period has begun; `divided`: some fit and some do not, or the server refuses one."""
        now = self._clock.now()
        limits = self._known.at([asked.reservation for asked in batch], now)
        if limits is None:
            return "stale"
        asks = _asks(batch, limits)
        holds = [self._hold(asked, ask.keys, now) for asked, ask in zip(batch, asks, strict=True)]
        held = sum_of(asks)
        wanted = self._instance_id, holds, held, limits, self._known.revision
        if await commit_at_once(self._database, lambda connection: take_if_room(connection, *wanted)):
            return holds
        taken = await commit_at_once(self._database, lambda connection: take_all(connection, *wanted))
        if taken is None:
            return "divided"
        if taken.is_taken:
            return holds
        if len(taken.rows) < len(held) or not held:
            return "stale"
        refusals = [refusal for refusal in decide(taken.rows, asks).refused_by if refusal is not None]
        return refusals if len(refusals) == len(batch) else "divided"

    async def _learn(self, batch: Sequence[_Asked]) -> None:
        """Limits, and rows for what they count now. Nothing is locked by then: who waits for a row that somebody else
        is just making must hold no other."""
        reservations = [asked.reservation for asked in batch]
        async with self._database.statement() as connection:
            await self._look_up(connection, reservations)
            limits = self._known.at(reservations, self._clock.now())
            if limits:
                await create_rows(connection, limits.keys())

    async def _look_up(self, connection: WriteConnection, asked: Sequence[Reservation]) -> None:
        current = await limits_of(connection, {one.tenant_id for one in asked}, {one.key_id for one in asked})
        self._known.learn(current, asked)

    async def _apply(
        self, connection: WriteConnection, batch: Sequence[_Asked]
    ) -> "Sequence[Hold | BudgetRow]":
        """In a transaction, one by one, with the rows locked."""
        reservations = [asked.reservation for asked in batch]
        await self._look_up(connection, reservations)
        now = self._clock.now()
        limits = self._known.at(reservations, now)
        assert limits is not None, "they were just learnt"
        asks = _asks(batch, limits)
        decision = decide(await _locked_rows(connection, limits, asks), asks)
        results = [
            refusal or self._hold(asked, ask.keys, now)
            for asked, ask, refusal in zip(batch, asks, decision.refused_by, strict=True)
        ]
        holds = [result for result in results if isinstance(result, Hold)]
        if holds:
            await insert_holds(connection, self._instance_id, holds, decision.held_nanousd)
        return results

    def _hold(self, asked: _Asked, keys: tuple[BudgetKey, ...], now: datetime) -> Hold:
        takes = tuple(Take(key.budget_id, key.period_key, asked.amount_nanousd) for key in keys)
        lasts = LEASE_TTL if asked.is_lease else self._hold_ttl
        return Hold(asked.reservation, asked.amount_nanousd, takes, now, now + lasts, is_lease=asked.is_lease)

    def _answer(self, asked: _Asked, result: Hold | BudgetRow | Exception) -> None:
        if asked.is_abandoned or asked.reply.done():  # its caller left, or its time ended, this very moment
            outcome = "abandoned"
            if isinstance(result, Hold):
                self._discard(asked.reservation.request_id)
        elif isinstance(result, Hold):
            outcome = "leased" if asked.is_lease else "ok"
            asked.reply.set_result(result)
        elif isinstance(result, BudgetRow):
            outcome = "refused"
            if not asked.is_lease:
                self.used_up.note(result, asked.amount_nanousd)
            asked.reply.set_exception(BudgetExceeded(result.scope))
        else:
            outcome = "failed"
            self._log.error("reserve_failed", request_id=asked.reservation.request_id, error=reason(result))
            asked.reply.set_exception(ReservationFailed(asked.reservation.request_id))
        self._outcomes["reserve", outcome].inc()

    async def _is_over(self, doubt: _Doubt) -> bool:
        try:
            return doubt.backend is None or await self._database.has_ended(doubt.backend)
        except DATABASE_ERRORS:  # away still; nothing is lost by waiting
            return False

    def _doubt(self, batch: Sequence[_Asked], backend: Backend | None) -> None:
        self._doubts.append(_Doubt(tuple(asked.reservation.request_id for asked in batch), backend))

    def _lose(self, batch: list[_Asked], bug: Exception) -> None:
        """Whether it has committed is not known; who has an answer already settles his hold himself."""
        self._doubt([asked for asked in batch if not asked.reply.done()], None)
        self._give_up(batch, bug)

    def _give_up(self, batch: Sequence[_Asked], error: Exception) -> None:
        for asked in batch:
            if not asked.reply.done() and not asked.is_abandoned:
                asked.reply.set_exception(error)

    def _abandon(self, asked: _Asked) -> None:
        """The caller is gone: nobody would settle a hold that exists or is about to."""
        asked.is_abandoned = True
        if asked.reply.done() and not asked.reply.cancelled() and asked.reply.exception() is None:
            self._discard(asked.reservation.request_id)

    def _without_database(self, asked: _Asked, error: BaseException) -> Hold:
        one, lease_id = asked.reservation, None
        may_go_on = not asked.is_lease and self._outage.may_go_on(one)
        if not (may_go_on or asked.is_lease) and self._outage.may_draw(one):
            lease_id = self._leases.draw(one.request_id, one.tenant_id, asked.amount_nanousd)
        if not may_go_on and lease_id is None:
            self._outcomes["reserve", "unavailable"].inc()
            raise LedgerUnavailable from error
        self._outcomes["reserve", "unrecorded"].inc()
        return replace(self._hold(asked, (), self._clock.now()), is_recorded=False, lease_id=lease_id)


async def _locked_rows(
    connection: WriteConnection, limits: Mapping[BudgetKey, BudgetLimit], asks: Sequence[Ask]
) -> dict[BudgetKey, BudgetRow]:
    keys = {key for ask in asks for key in ask.keys}
    if not keys:
        return {}
    counts = await lock_rows(connection, keys)
    if (
        missing := keys - counts.keys()
    ):  # a period that began, or a budget that was made, in the last millisecond
        await create_rows(connection, missing)
        counts |= await lock_rows(connection, missing)
    return {key: limits[key].row(key, counts[key]) for key in keys}


def _asks(batch: Sequence[_Asked], limits: Mapping[BudgetKey, BudgetLimit]) -> list[Ask]:
    """One per reservation, with the rows that limit it in key order."""
    keys: dict[tuple[TenantId, KeyId], tuple[BudgetKey, ...]] = {}
    asks = []
    for asked in batch:
        pair = asked.reservation.tenant_id, asked.reservation.key_id
        if pair not in keys:
            keys[pair] = tuple(sorted(key for key, limit in limits.items() if limit.covers(*pair)))
        asks.append(Ask(asked.amount_nanousd, keys[pair]))
    return asks


def _expire(asked: _Asked) -> None:
    if not asked.reply.done():
        asked.reply.set_exception(TimeoutError())


def _reply() -> "asyncio.Future[Hold]":
    return asyncio.get_running_loop().create_future()


def _lease_of(ids: IdSource, tenant_id: TenantId) -> Reservation:
    """Of no key, model or price: only its amount and its tenant count."""
    nothing = Decimal(0)
    return Reservation(
        request_id=RequestId(ids.new("lease")),
        tenant_id=tenant_id,
        key_id=KeyId(""),
        served_model="",
        route_id=RouteId(""),
        pool_id=PoolId(""),
        endpoint="lease",
        prices=Prices(0, 0, 0, nothing, nothing, nothing),
        max_prompt_tokens=0,
        max_output_tokens=0,
    )
