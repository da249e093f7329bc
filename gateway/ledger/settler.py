"""The settle batcher of a process, and the spool behind it.

`submit` never awaits and loses nothing: what the database cannot take now goes to the spool, is on the disk before
it is forgotten here, and is replayed when the server is back. It does not know why a request ended.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence

import msgspec

from gateway.clock import Clock
from gateway.db import DATABASE_ERRORS, Database, reason
from gateway.ids import RequestId
from gateway.ledger.batcher import BatchQueue, CommitUnknown, QueueFull, serve
from gateway.ledger.outage import Outage
from gateway.ledger.settling import Operation, Outcome, SettleBatch
from gateway.ledger.spool import Spool
from gateway.ledger.types import Settlement
from gateway.obs.failpoints import failpoint
from gateway.obs.logging import get_logger
from gateway.obs.metrics import Children, Metrics

__all__ = ["Settler"]

BATCH_MAX = 256
QUEUE_MAX = 16_384
SPOOL_RETRY_S = 0.5
LINGER_S = 0.05
"""Nobody waits for a settlement, but everybody for the budget rows that it locks: fewer, larger batches leave them to
the reservations. A caller's next request comes within this time and would wait for the commit of its last one. What
was held stays held for as long, and a gateway that is killed leaves as much more to the reconciler."""


class Settler:
    def __init__(
        self,
        database: Database,
        batch: SettleBatch,
        spool: Spool,
        *,
        clock: Clock,
        metrics: Metrics,
        outage: Outage,
    ) -> None:
        self._database = database
        self._batch = batch
        self._spool = spool
        self._clock = clock
        self._metrics = metrics
        self._outcomes = Children(metrics.ledger_operations)
        self._commit_seconds = metrics.ledger_commit_seconds.labels("settle")
        self._batch_size = metrics.ledger_batch_size.labels("settle")
        self._outage = outage
        self._queue: BatchQueue[Operation] = BatchQueue(
            capacity=QUEUE_MAX, batch_max=BATCH_MAX, linger_s=LINGER_S
        )
        metrics.ledger_queue.labels("settle").set_function(lambda: len(self._queue))
        self._replaying = asyncio.Lock()
        self._is_committing = False
        self._log = get_logger(__name__)

    @property
    def is_idle(self) -> bool:
        """Nothing that was handed in waits, in memory or on the disk."""
        return not (self._queue or self._is_committing or self._spool)

    def submit(self, settlement: Settlement) -> None:
        self._put(Operation(settlement=settlement))

    def discard(self, request_id: RequestId) -> None:
        self._put(Operation(discard=request_id))

    async def run(self) -> None:
        """Commit what is submitted until `close`d and empty."""
        await serve(self._queue, self._commit, self._reject, self._log)

    async def replay(self) -> bool:
        """Apply the spool; true if nothing is left in it. Killed half-way, it applies the same records again."""
        async with self._replaying:
            records = await asyncio.to_thread(self._spool.read)
            applied = 0
            try:
                while applied < len(records):
                    failpoint("spool.replaying")
                    batch = records[applied : applied + BATCH_MAX]
                    await self._replay_batch(batch)
                    applied += len(batch)
            except (CommitUnknown, *DATABASE_ERRORS) as error:
                self._outage.begin(error)
            return await self._shorten(applied) and applied == len(records)

    def close(self) -> None:
        """Take nothing more into the queue; what comes after this goes to the spool."""
        self._queue.close()

    def _put(self, operation: Operation) -> None:
        try:
            self._queue.put_nowait(operation)
        except QueueFull:
            try:
                # Blocks the loop for one fsync. Rare, and better than losing the settlement.
                self._spool.append([msgspec.json.encode(operation)])
            except OSError as error:
                self._reject([operation], error)

    async def _commit(self, operations: list[Operation]) -> None:
        self._is_committing = True
        try:
            await self._keep(operations)
        finally:
            self._is_committing = False

    async def _keep(self, operations: list[Operation]) -> None:
        """To the database, else to the disk, else both again: nothing is forgotten while the process lives."""
        while True:
            if not self._outage.is_active:
                try:
                    await self._apply(operations)
                except (CommitUnknown, *DATABASE_ERRORS) as error:
                    self._outage.begin(error)
                else:
                    return
            try:
                await asyncio.to_thread(self._spool.append, [msgspec.json.encode(op) for op in operations])
            except OSError as error:
                self._log.error("spool_not_writable", operations=len(operations), error=str(error))
                if self._queue.is_closed:  # the process ends; their holds stay for the reconciler
                    self._reject(operations, error)
                    return
                await asyncio.sleep(SPOOL_RETRY_S)
            else:
                self._metrics.ledger_spooled.set(len(self._spool))
                return

    async def _replay_batch(self, records: Sequence[bytes]) -> None:
        """Raises only if the server is away: a record that cannot be read or applied stands in nobody's way."""
        operations = []
        for record in records:
            try:
                operations.append(msgspec.json.decode(record, type=Operation))
            except msgspec.MsgspecError as error:
                self._keep_aside(record)
                self._log.error("spooled_settlement_unreadable", error=str(error))
        await self._apply(operations)

    async def _shorten(self, applied: int) -> bool:
        """False if the disk does not let go of them: they are applied again, which does nothing."""
        try:
            if applied:
                failpoint("spool.applied")
                await asyncio.to_thread(self._spool.remove_first, applied)
        except OSError as error:
            self._log.error("spool_not_writable", operations=applied, error=str(error))
            return False
        self._metrics.ledger_spooled.set(len(self._spool))
        return True

    async def _apply(self, operations: Sequence[Operation]) -> None:
        """Raises only if the server is away. What only one of them runs into fails that one: the others are applied in
        halves, and those that were applied before are duplicates then."""
        try:
            await self._apply_together(operations)
            return
        except (CommitUnknown, *DATABASE_ERRORS):
            raise
        except Exception as bug:
            if len(operations) < 2:
                self._log.exception("settlement_failed", operations=len(operations))
                self._reject(operations, bug)
                return
            self._log.warning("settlements_tried_apart", operations=len(operations), error=reason(bug))
        middle = len(operations) // 2
        await self._apply(operations[:middle])
        await self._apply(operations[middle:])

    async def _apply_together(self, operations: Sequence[Operation]) -> None:
        started_s = self._clock.monotonic()
        results = await self._batch.commit(self._database, operations)
        failpoint("settle.committed")
        self._outage.end()
        self._commit_seconds.observe(self._clock.monotonic() - started_s)
        self._batch_size.observe(len(operations))
        counts: Counter[Outcome] = Counter()
        for operation, result in zip(operations, results, strict=True):
            if isinstance(result, Exception):
                self._reject([operation], result)
                continue
            counts[result] += 1
            if result == "duplicate":
                self._log.warning("duplicate_settlement", request_id=operation.request_id)
        for outcome, number in counts.items():
            self._outcomes["settle", outcome].inc(number)

    def _reject(self, operations: Sequence[Operation], error: Exception) -> None:
        """Their holds stay, and the evidence is kept."""
        for operation in operations:
            self._keep_aside(msgspec.json.encode(operation))
            self._outcomes["settle", "rejected"].inc()
            self._log.error("settlement_rejected", request_id=operation.request_id, error=reason(error))

    def _keep_aside(self, record: bytes) -> None:
        try:
            self._spool.reject(record)
        except OSError as error:
            self._log.error("spool_not_writable", operations=1, error=str(error))
