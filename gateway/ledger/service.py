"""`Ledger`: what the request path knows of the money. Reserve before an engine sees the request, settle after.

Owns the two batchers of a process, their connections, its spool and its heartbeat. `settle` and `release` never
await, so a cancelled request path can call them; they outlive the request and are flushed by `drain`. It does not
know HTTP, routes or engines.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from gateway.clock import Clock
from gateway.db import DATABASE_ERRORS, Database, reason
from gateway.ids import GatewayId, IdSource, RequestId, TenantId
from gateway.ledger.errors import DuplicateSettlement
from gateway.ledger.keeping import keep_running
from gateway.ledger.leases import Leases
from gateway.ledger.outage import Outage
from gateway.ledger.repository.budgets import hard_scopes, note_refusals
from gateway.ledger.repository.instances import beat, mark_stopped, stop_earlier_runs
from gateway.ledger.repository.leases import allowances, stale_leases
from gateway.ledger.reserving import Reserver
from gateway.ledger.settler import Settler
from gateway.ledger.settling import Operation, SettleBatch
from gateway.ledger.spool import Spool
from gateway.ledger.types import Hold, Reservation, Settlement, SettlementStatus
from gateway.ledger.unrecorded import UnrecordedHolds
from gateway.ledger.used_up import Refused
from gateway.obs.logging import get_logger
from gateway.obs.metrics import Metrics
from gateway.settings import DatabaseSettings, LedgerSettings

__all__ = ["HEARTBEAT_SILENCE_S", "Ledger"]

HEARTBEAT_INTERVAL_S = 1.0
REPLAY_INTERVAL_S = 0.5
DOUBTS_RETRY_S = 0.05
DOUBTS_WAIT_S = 5.0
"""How long the end waits for sessions that were told to end. What they hold after that is the reconciler's."""
LEASE_SWEEP_BEATS = 60
"""How often leases that have expired are looked for, whosever they are."""
HEARTBEAT_SILENCE_S = 30.0
"""A run that has been silent for this long by the database's clock is taken for dead."""


class Ledger:
    """Make it inside a running loop, `await start()`, and `await drain()` at the end."""

    def __init__(
        self,
        database: DatabaseSettings,
        *,
        gateway_id: GatewayId,
        settings: LedgerSettings,
        clock: Clock,
        ids: IdSource,
        metrics: Metrics,
    ) -> None:
        self._gateway_id = gateway_id
        self._instance_id = ids.new("run")
        self._clock = clock
        self._metrics = metrics
        self._reserve_database = Database.of(database, name="tollway-reserve", pool_size=1, keyed=True)
        self._settle_database = Database.of(database, name="tollway-settle", pool_size=2, keyed=True)
        self._spool = Spool(settings.spool_dir, gateway_id)
        self._unrecorded = UnrecordedHolds(Spool(settings.spool_dir, f"{gateway_id}.unrecorded"))
        self._outage = Outage(clock, settings.outage_grace_s)
        self._leases = Leases(clock)
        self._allowances: dict[TenantId, int] = {}
        self._settle_batch = SettleBatch(ids)
        self._settler = Settler(
            self._settle_database,
            self._settle_batch,
            self._spool,
            clock=clock,
            metrics=metrics,
            outage=self._outage,
        )
        self._reserver = Reserver(
            self._reserve_database,
            instance_id=self._instance_id,
            clock=clock,
            ids=ids,
            metrics=metrics,
            outage=self._outage,
            leases=self._leases,
            timeout_s=settings.reserve_timeout_s,
            hold_ttl_s=settings.hold_ttl_s,
            discard=self._settler.discard,
        )
        self._open: dict[RequestId, Hold] = {}
        metrics.ledger_open_holds.set_function(lambda: len(self._open))
        self._budgets_revision: int | None = None
        self._is_replayed = False
        self._has_taken_over = False
        """What earlier runs of this gateway left open is the reconciler's."""
        self._is_draining = False
        self._beats = 0
        self._batchers: list[asyncio.Task[None]] = []
        self._helpers: list[asyncio.Task[None]] = []
        self._log = get_logger(__name__)

    @property
    def instance_id(self) -> str:
        """This run, as its heartbeat names it."""
        return self._instance_id

    @property
    def is_ready(self) -> bool:
        """The spool of an earlier run has been applied. It says nothing about the database's health now."""
        return self._is_replayed and self.is_running and not self._is_draining

    @property
    def is_running(self) -> bool:
        """False if a loop of it was ended by somebody: nothing but a new process helps then."""
        return not any(task.done() for task in (*self._batchers, *self._helpers))

    @property
    def is_drained(self) -> bool:
        return self._is_draining and all(batcher.done() for batcher in self._batchers)

    async def start(self) -> None:
        """Start the batchers; apply the spool of an earlier run now, or in the background if Postgres is away."""
        self._batchers = [self._kept("reserve", self._reserver.run), self._kept("settle", self._settler.run)]
        self._is_replayed = await self._settler.replay()
        await self._beat()
        self._helpers = [
            self._kept("heartbeat", self._run_heartbeat),
            self._kept("replays", self._run_replays),
        ]

    async def reserve(self, reservation: Reservation) -> Hold:
        """A committed hold on every limited scope, or BudgetExceeded (429), or LedgerUnavailable (503)."""
        hold = await self._reserver.reserve(reservation)
        if not hold.is_recorded:
            await self._unrecorded.note(hold)
        self._open[hold.request_id] = hold
        return hold

    def settle(self, settlement: Settlement) -> None:
        """Charge what was produced. Never awaits. A second call for one request is DuplicateSettlement."""
        hold = self._forget(settlement.request_id)
        self._hand_over(hold, settlement)

    def release(self, request_id: RequestId, reason: str, status: SettlementStatus = "error") -> None:
        """Nothing was produced, or the fault was ours: an event without tokens, the hold is given back."""
        hold = self._forget(request_id)
        self._hand_over(
            hold, Settlement(hold=hold, status=status, occurred_at=self._clock.now(), error_code=reason)
        )

    async def give_back(self, request_ids: Sequence[RequestId]) -> None:
        """Holds of requests whose gateway is gone, or that were charged before: nobody will settle them. Raises
        DATABASE_ERRORS or CommitUnknown."""
        operations = [Operation(discard=request_id) for request_id in request_ids]
        for result in await self._settle_batch.commit(self._settle_database, operations):
            if isinstance(result, Exception):
                raise result

    async def drain(self) -> None:
        """Admit nothing more, commit (or spool) everything that was handed in, and stop."""
        self._is_draining = True
        self._reserver.close()
        await self._batchers[0]
        await self._end_doubts()
        self._leases.give_back_unused(self._settler.discard)
        self._settler.close()
        await self._batchers[1]
        for helper in self._helpers:
            helper.cancel()
        await asyncio.gather(*self._helpers, return_exceptions=True)
        await self._settler.replay()
        await self._mark_stopped()
        await self._unrecorded.forget_settled(self._settler.is_idle)
        self._unrecorded.close()
        self._spool.close()
        await self._reserve_database.close()
        await self._settle_database.close()

    def _kept(self, name: str, work: Callable[[], Awaitable[None]]) -> "asyncio.Task[None]":
        return asyncio.create_task(keep_running(name, work, self._metrics, self._log))

    def _forget(self, request_id: RequestId) -> Hold:
        hold = self._open.pop(request_id, None)
        if hold is None:
            raise DuplicateSettlement(f"{request_id} is not open here")
        return hold

    def _hand_over(self, hold: Hold, settlement: Settlement) -> None:
        self._settler.submit(settlement)
        self._unrecorded.handed_over(hold)
        self._leases.handed_over(hold)

    async def _run_heartbeat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_INTERVAL_S)
            await self._beat()

    async def _run_replays(self) -> None:
        while True:
            await asyncio.sleep(REPLAY_INTERVAL_S)
            await self._reserver.resolve_doubts()
            if len(self._spool) and await self._settler.replay():
                self._is_replayed = True
            await self._unrecorded.forget_settled(self._settler.is_idle)

    async def _beat(self) -> None:
        """Say that this run is alive and which budgets are used up, and look which scopes have hard budgets."""
        used_up = self._reserver.used_up.news
        lane = self._settle_database.lane
        try:
            await lane.ready()
            revision = await beat(lane, self._instance_id, self._gateway_id)
            if revision != self._budgets_revision or used_up:
                await self._look_and_tell(revision, used_up)
            if self._is_replayed and not self._has_taken_over:
                await self._take_over()
            if self._has_taken_over:
                await self._refresh_leases(revision)
        except DATABASE_ERRORS as error:
            self._outage.begin(error)
        else:
            self._outage.end()

    async def _look_and_tell(self, revision: int, used_up: Sequence[Refused]) -> None:
        """What is read after a revision is at least as new."""
        async with self._settle_database.transaction() as connection:
            if revision != self._budgets_revision:
                self._outage.remember_hard_scopes(await hard_scopes(connection))
                self._allowances = await allowances(connection)
                self._budgets_revision = revision
            if used_up:
                await note_refusals(connection, used_up)
        self._reserver.used_up.told(used_up)

    async def _take_over(self) -> None:
        """Once the spool is applied: the last run of this gateway is dead, or it would still have the spool's lock."""
        async with self._settle_database.transaction() as connection:
            await self._unrecorded.restore(connection)
            await stop_earlier_runs(connection, self._instance_id, self._gateway_id)
            # All that was drawn from their leases is settled by now, unless some of it was just restored.
            stale = await stale_leases(
                connection,
                self._instance_id,
                self._gateway_id,
                of_earlier_runs=not self._unrecorded.has_earlier,
            )
        self._give_back(stale)
        await self._unrecorded.forget_earlier()
        self._has_taken_over = True

    async def _refresh_leases(self, revision: int) -> None:
        self._beats += 1
        if self._beats % LEASE_SWEEP_BEATS == 0:
            async with self._settle_database.statement() as connection:
                stale = await stale_leases(
                    connection, self._instance_id, self._gateway_id, of_earlier_runs=False
                )
            self._give_back(stale)
        await self._leases.refresh(
            self._allowances,
            revision,
            self._reserver.lease,
            self._settler.discard,
            self._settler.is_idle,
        )

    def _give_back(self, leases: Sequence[RequestId]) -> None:
        for lease_id in leases:
            self._settler.discard(lease_id)

    async def _end_doubts(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(DOUBTS_WAIT_S):
                while True:
                    if await self._reserver.resolve_doubts():
                        return
                    await asyncio.sleep(DOUBTS_RETRY_S)
        self._log.error("ledger_stopped_with_commits_in_doubt")

    async def _mark_stopped(self) -> None:
        if self._open:
            self._log.error("ledger_stopped_with_open_holds", holds=len(self._open))
            return  # the sweeper resolves them once the heartbeat is silent
        try:
            async with self._settle_database.transaction() as connection:
                await mark_stopped(connection, self._instance_id)
        except DATABASE_ERRORS as error:
            self._log.warning("ledger_stop_not_recorded", error=reason(error))
