"""Reconciliation: requests whose gateway died are settled from what their engine journalled.

One pass: ask every replica for its status, then page through its journal (in this order: what a status no longer
shows, the journal read after it has), then resolve holds that nobody will settle. A hold is never resolved while a
replica works on its request, or while a replica that may have had it has been silent for less than
`GONE_AFTER_S`. Writes go through the ledger; it does not know how replicas are spoken to.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from gateway.clock import Clock
from gateway.db import Database
from gateway.ids import PoolId, ReplicaId, RequestId
from gateway.ledger.batcher import commit_batch
from gateway.ledger.repository.holds import holds_of, orphaned_holds, provisional_holds
from gateway.ledger.settling import Operation, SettleBatch
from gateway.ledger.types import Hold, Settlement
from gateway.obs.failpoints import failpoint
from gateway.obs.logging import get_logger
from gateway.obs.metrics import Metrics
from gateway.reconcile import repository as sql
from gateway.reconcile.evidence import (
    JournalAttempt,
    merge,
    settlement_from_journal,
    settlement_without_evidence,
)
from gateway.reconcile.journal import JournalReader, NoJournal, ReplicaRef, ReplicaUnreachable

__all__ = ["Reconciler"]

PAGE_RECORDS = 1000
PAGES_PER_PASS_MAX = 200
HOLDS_PER_PASS = 500
LIVE_LAG_S = 60.0
"""How long a gateway that is alive may take to settle what has ended for its engine: its caller may read slowly."""
GONE_AFTER_S = 300.0
"""A replica that has been silent for this long is taken to be gone for good."""


@dataclass(slots=True)
class _View:
    """What one pass learnt of the replicas."""

    working_on: set[RequestId] = field(default_factory=set)
    readable: set[ReplicaId] = field(default_factory=set)
    """Their journals were read to the end."""
    silent: set[ReplicaId] = field(default_factory=set)
    """Not answering, for less than GONE_AFTER_S."""


class Reconciler:
    """One per worker process. Safe to run in several: the guard of the ledger lets only one settle a request."""

    def __init__(
        self,
        database: Database,
        reader: JournalReader,
        batch: SettleBatch,
        *,
        clock: Clock,
        metrics: Metrics,
        lag_s: float,
        gateway_silence_s: float,
    ) -> None:
        self._database = database
        self._reader = reader
        self._batch = batch
        self._clock = clock
        self._metrics = metrics
        self._lag_s = lag_s
        self._gateway_silence_s = gateway_silence_s
        self._silent_since_s: dict[ReplicaId, float] = {}
        self._log = get_logger(__name__)

    async def run_once(self) -> int:
        """One pass; how many requests it settled."""
        async with self._database.transaction() as connection:
            replicas = await sql.replicas(connection)
        view = _View()
        for replica in replicas:
            await self._look_at(replica, view)
        settled = await self._settle_orphans(replicas, view)
        settled += await self._correct_provisional(view)
        await self._match()
        return settled

    async def _look_at(self, replica: ReplicaRef, view: _View) -> None:
        if not replica.is_ours:
            return
        try:
            status = await self._reader.status(replica)
            view.working_on |= status.request_ids
            await self._read_journal(replica)
        except NoJournal:
            return
        except ReplicaUnreachable:
            since_s = self._silent_since_s.setdefault(replica.replica_id, self._clock.monotonic())
            if self._clock.monotonic() - since_s < GONE_AFTER_S:
                view.silent.add(replica.replica_id)
            return
        self._silent_since_s.pop(replica.replica_id, None)
        view.readable.add(replica.replica_id)

    async def _read_journal(self, replica: ReplicaRef) -> None:
        async with self._database.transaction() as connection:
            cursor = await sql.cursor_of(connection, replica.replica_id)
        for _ in range(PAGES_PER_PASS_MAX):
            page = await self._reader.read(replica, cursor, PAGE_RECORDS)
            cursor = page.cursor
            async with self._database.transaction() as connection:
                attempts = merge(replica.replica_id, page.records)
                await sql.save_page(connection, replica.replica_id, cursor, attempts)
            if page.is_complete:
                return
        raise ReplicaUnreachable("the journal grows faster than it is read")

    async def _settle_orphans(self, replicas: Sequence[ReplicaRef], view: _View) -> int:
        async with self._database.transaction() as connection:
            holds = await orphaned_holds(connection, self._gateway_silence_s, HOLDS_PER_PASS)
            evidence = await sql.attempts_of(connection, [hold.request_id for hold in holds])
        by_pool: dict[PoolId, set[ReplicaId]] = {}
        for replica in replicas:
            by_pool.setdefault(replica.pool_id, set()).add(replica.replica_id)
        settlements = [
            self._resolve(hold, evidence.get(hold.request_id, ()), by_pool, view)
            for hold in holds
            if hold.request_id not in view.working_on
        ]
        return await self._settle([one for one in settlements if one is not None], "hold")

    def _resolve(
        self,
        hold: Hold,
        attempts: Sequence[JournalAttempt],
        by_pool: Mapping[PoolId, Collection[ReplicaId]],
        view: _View,
    ) -> Settlement | None:
        """What the hold comes to, or None while more may still be learnt."""
        pool = by_pool.get(hold.reservation.pool_id, ())
        if any(replica_id in view.silent for replica_id in pool):
            return None
        if attempts:
            is_cut_off = any(not one.has_ended and one.replica_id in view.readable for one in attempts)
            if is_cut_off and self._clock.now() < hold.expires_at:
                return None  # the engine's supervisor closes such a journal; its last word is still to come
            return settlement_from_journal(hold, attempts)
        may_have_run = not pool or any(replica_id not in view.readable for replica_id in pool)
        return settlement_without_evidence(hold, self._clock.now(), may_have_run=may_have_run)

    async def _correct_provisional(self, view: _View) -> int:
        """Requests that ended for their engine but not for the ledger, and those settled without evidence."""
        async with self._database.transaction() as connection:
            request_ids = await sql.unsettled_requests(connection, self._lag_s, LIVE_LAG_S, HOLDS_PER_PASS)
            wanted = [request_id for request_id in request_ids if request_id not in view.working_on]
            holds = await holds_of(connection, wanted) | await provisional_holds(connection, wanted)
            evidence = await sql.attempts_of(connection, wanted)
        settlements = [
            settlement_from_journal(hold, evidence[request_id]) for request_id, hold in holds.items()
        ]
        return await self._settle(settlements, "journal")

    async def _settle(self, settlements: Sequence[Settlement], source: str) -> int:
        if not settlements:
            return 0
        failpoint("reconcile.before_settle")
        operations = [Operation(settlement=settlement) for settlement in settlements]
        await self._batch.prepare(self._database, operations)
        results = await commit_batch(self._database, operations, self._batch.apply)
        settled = 0
        for operation, result in zip(operations, results, strict=True):
            if isinstance(result, Exception):
                self._log.error("reconcile_failed", request_id=operation.request_id, error=str(result))
            elif result != "duplicate":
                settled += 1
                self._metrics.reconciled_attempts.labels(source).inc()
                self._log.warning(
                    "reconciled", request_id=operation.request_id, outcome=result, source=source
                )
        return settled

    async def _match(self) -> None:
        async with self._database.transaction() as connection:
            await sql.write_unbilled(connection, self._lag_s, HOLDS_PER_PASS)
            differing = await sql.match_attempts(connection)
            unmatched = await sql.unmatched_tokens(connection, self._lag_s)
        if differing:
            self._log.error("journal_and_ledger_differ", tokens=differing)
        self._metrics.ledger_drift_tokens.set(unmatched + differing)
