"""Reconciliation: requests whose gateway died are settled from what their engine journalled.

One pass: look at every replica (`lookout`), then resolve the holds that nobody will settle, correct what was settled
without evidence, and compare journals with the ledger. A hold is never resolved while a replica works on its
request, or while a replica that may have had it has been silent for less than `GONE_AFTER_S`. Evidence of requests
that the ledger has never heard of is listed for review. Writes go through the ledger; it does not know how replicas
are spoken to.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import get_args

from gateway.clock import Clock
from gateway.db import Database, reason
from gateway.ids import PoolId
from gateway.ledger.batcher import commit_batch
from gateway.ledger.repository.holds import FIRST_HOLD, holds_of, orphaned_holds, provisional_holds
from gateway.ledger.repository.review import (
    ReviewKind,
    ReviewNote,
    list_unknown_requests,
    open_items_by_kind,
    resolve_settled,
    write_notes,
)
from gateway.ledger.settling import Operation, SettleBatch
from gateway.ledger.types import Hold, Settlement
from gateway.obs.failpoints import failpoint
from gateway.obs.logging import get_logger
from gateway.obs.metrics import Metrics
from gateway.reconcile.evidence import (
    JournalAttempt,
    is_whole,
    settlement_from_journal,
    settlement_without_evidence,
)
from gateway.reconcile.journal import JournalReader, ReplicaRef
from gateway.reconcile.lookout import Lookout, View
from gateway.reconcile.repository.drift import (
    differing_tokens,
    epoch_sums,
    event_drift,
    match_attempts,
    unmatched_tokens,
)
from gateway.reconcile.repository.journals import (
    attempts_of,
    replicas,
    unsettled_requests,
    write_unbilled,
)

__all__ = ["Reconciler"]

HOLDS_PER_BATCH = 500
LIVE_LAG_S = 60.0
"""How long a gateway that is alive may take to settle what has ended for its engine: its caller may read slowly."""
CLOCKS_DIFFER = timedelta(minutes=1)
"""A replica's end is told by the database's clock, a hold's beginning by a gateway's."""
UNKNOWN_AFTER_S = 3600.0
"""How long the ledger may not know a request that a journal knows: its settlement may wait in a spool."""
EVENT_WINDOW_S = 120.0
"""How far back each comparison of events with their attempts looks; each is compared several times."""


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
        self._lookout = Lookout(database, reader, clock)
        self._batch = batch
        self._clock = clock
        self._metrics = metrics
        self._lag_s = lag_s
        self._gateway_silence_s = gateway_silence_s
        self.differences: dict[str, int | None] = {"journals": None, "epochs": None, "events": None}
        """In tokens, as they were last found; None until they are looked for."""
        self._log = get_logger(__name__)

    async def run_once(self) -> int:
        """One pass; how many requests it settled."""
        async with self._database.transaction() as connection:
            known = await replicas(connection)
        view = await self._lookout.look(known)
        settled = await self._settle_orphans(known, view)
        settled += await self._correct_provisional(view)
        await self._compare()
        return settled

    async def _settle_orphans(self, known: Sequence[ReplicaRef], view: View) -> int:
        by_pool: dict[PoolId, list[ReplicaRef]] = {}
        for replica in known:
            by_pool.setdefault(replica.pool_id, []).append(replica)
        ours = {replica.pool_id for replica in known if replica.is_ours}
        settled, after = 0, FIRST_HOLD
        while True:
            async with self._database.transaction() as connection:
                holds = await orphaned_holds(connection, self._gateway_silence_s, HOLDS_PER_BATCH, after)
                evidence = await attempts_of(connection, [hold.request_id for hold in holds])
            wanted = [hold for hold in holds if hold.request_id not in view.working_on]
            settlements = [
                self._resolve(hold, evidence.get(hold.request_id, ()), by_pool, view) for hold in wanted
            ]
            found = [one for one in settlements if one is not None]
            await self._list_losses(found, ours)
            settled += await self._settle(found, "hold")
            if len(holds) < HOLDS_PER_BATCH:
                return settled
            after = (holds[-1].reserved_at, holds[-1].request_id)

    def _resolve(
        self,
        hold: Hold,
        attempts: Sequence[JournalAttempt],
        by_pool: Mapping[PoolId, Sequence[ReplicaRef]],
        view: View,
    ) -> Settlement | None:
        """What the hold comes to, or None while more may still be learnt."""
        pool = by_pool.get(hold.reservation.pool_id, ())
        since = hold.reserved_at - CLOCKS_DIFFER
        possible = {one.replica_id for one in pool if one.stopped_at is None or one.stopped_at > since}
        if any(replica_id in view.silent for replica_id in possible):
            return None
        if attempts:
            living = view.readable - view.gone
            is_cut_off = not is_whole(attempts)
            is_cut_off |= any(not one.has_ended and one.replica_id in living for one in attempts)
            if is_cut_off and self._clock.now() < hold.expires_at:
                return None  # the engine's supervisor closes such a journal; its last word is still to come
            return settlement_from_journal(hold, attempts)
        may_have_run = not pool or any(replica_id not in view.readable for replica_id in possible)
        return settlement_without_evidence(hold, self._clock.now(), may_have_run=may_have_run)

    async def _correct_provisional(self, view: View) -> int:
        """Requests that ended for their engine but not for the ledger, and those settled without evidence."""
        async with self._database.transaction() as connection:
            request_ids = await unsettled_requests(connection, self._lag_s, LIVE_LAG_S, HOLDS_PER_BATCH)
            wanted = [request_id for request_id in request_ids if request_id not in view.working_on]
            holds = await holds_of(connection, wanted) | await provisional_holds(connection, wanted)
            evidence = await attempts_of(connection, wanted)
        settlements = [
            settlement_from_journal(hold, evidence[request_id])
            for request_id, hold in holds.items()
            if is_whole(evidence[request_id])
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
                self._log.error("reconcile_failed", request_id=operation.request_id, error=reason(result))
            elif result not in ("duplicate", "listed"):
                settled += 1
                self._metrics.reconciled_attempts.labels(source).inc()
                self._log.warning(
                    "reconciled", request_id=operation.request_id, outcome=result, source=source
                )
        return settled

    async def _list_losses(self, settlements: Sequence[Settlement], ours: Collection[PoolId]) -> None:
        """Engines of ours that are gone with their journal: what is charged is only what is sure. Before the
        settlement, so that a crash in between lists one too many and not one too few."""
        lost = [one for one in settlements if one.is_provisional and one.status == "unknown"]
        notes = [_loss(one) for one in lost if one.hold.reservation.pool_id in ours]
        if notes:
            async with self._database.transaction() as connection:
                await write_notes(connection, notes)

    async def _compare(self) -> None:
        """Journals with attempts: what only a journal knows is written, what both know is marked."""
        async with self._database.transaction() as connection:
            await write_unbilled(connection, self._lag_s, HOLDS_PER_BATCH)
            differing_now = await match_attempts(connection)
            unmatched = await unmatched_tokens(connection, self._lag_s)
            differing = await differing_tokens(connection)
        if differing_now:
            self._log.error("journal_and_ledger_differ", tokens=differing_now)
        self._metrics.ledger_drift_tokens.set(unmatched + differing)
        self.differences["journals"] = unmatched + differing

    async def check(self) -> None:
        """The two equalities as they stand, and what waits for a person. Changes nothing but the review list."""
        async with self._database.transaction() as connection:
            epochs = [one for one in await epoch_sums(connection) if not one.is_equal]
            event_tokens = await event_drift(connection, EVENT_WINDOW_S)
            listed = await list_unknown_requests(connection, UNKNOWN_AFTER_S, HOLDS_PER_BATCH)
            await resolve_settled(connection)
            items = await open_items_by_kind(connection)
        for one in epochs:
            self._log.error("epoch_differs", replica=one.replica_id, epoch=one.epoch, tokens=one.drift_tokens)
        if event_tokens:
            self._log.error("events_and_attempts_differ", tokens=event_tokens)
        if listed:
            self._log.error("evidence_of_unknown_requests", requests=listed)
        self.differences |= {"epochs": sum(one.drift_tokens for one in epochs), "events": event_tokens}
        self._metrics.ledger_epoch_drift_tokens.set(sum(one.drift_tokens for one in epochs))
        self._metrics.ledger_event_drift_tokens.set(event_tokens)
        for kind in get_args(ReviewKind):
            self._metrics.ledger_review_items.labels(kind).set(items.get(kind, 0))


def _loss(settlement: Settlement) -> ReviewNote:
    asked = settlement.hold.reservation
    return ReviewNote(
        "engine_gone",
        asked.request_id,
        request_id=asked.request_id,
        tenant_id=asked.tenant_id,
        details={
            "pool_id": asked.pool_id,
            "charged_prompt_tokens": asked.fallback_prompt_tokens,
            "max_output_tokens": asked.max_output_tokens,
        },
    )
