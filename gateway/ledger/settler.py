"""The settle batcher of a process, and the spool behind it.

`submit` never awaits and loses nothing: what the database cannot take now goes to the spool, is on the disk before
it is forgotten here, and is replayed when the server is back. It does not know why a request ended.
"""

import asyncio
from collections.abc import Sequence

import msgspec

from gateway.clock import Clock
from gateway.db import DATABASE_ERRORS, Database
from gateway.ids import RequestId
from gateway.ledger.batcher import BatchQueue, CommitUnknown, QueueFull, commit_batch, serve
from gateway.ledger.outage import Outage
from gateway.ledger.settling import Operation, Outcome, SettleBatch
from gateway.ledger.spool import Spool
from gateway.ledger.types import Settlement
from gateway.obs.logging import get_logger
from gateway.obs.metrics import Metrics

__all__ = ["Settler"]

BATCH_MAX = 256
QUEUE_MAX = 16_384


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
        self._outage = outage
        self._queue: BatchQueue[Operation] = BatchQueue(capacity=QUEUE_MAX, batch_max=BATCH_MAX)
        self._replaying = asyncio.Lock()
        self._log = get_logger(__name__)

    def submit(self, settlement: Settlement) -> None:
        self._put(Operation(settlement=settlement))

    def discard(self, request_id: RequestId) -> None:
        self._put(Operation(discard=request_id))

    async def run(self) -> None:
        """Commit what is submitted until `close`d and empty."""
        await serve(self._queue, self._commit, self._give_up, self._log)

    async def replay(self) -> bool:
        """Apply the spool; true if nothing is left in it. Killed half-way, it applies the same records again."""
        async with self._replaying:
            records = await asyncio.to_thread(self._spool.read)
            applied = 0
            while applied < len(records):
                batch = records[applied : applied + BATCH_MAX]
                try:
                    await self._apply([msgspec.json.decode(record, type=Operation) for record in batch])
                except (CommitUnknown, *DATABASE_ERRORS) as error:
                    self._outage.begin(error)
                    break
                applied += len(batch)
            if applied:
                await asyncio.to_thread(self._spool.remove_first, applied)
                self._metrics.ledger_spooled.set(len(self._spool))
            return applied == len(records)

    def close(self) -> None:
        """Take nothing more into the queue; what comes after this goes to the spool."""
        self._queue.close()

    def _put(self, operation: Operation) -> None:
        try:
            self._queue.put_nowait(operation)
        except QueueFull:
            # Blocks the loop for one fsync. Rare, and better than losing the settlement.
            self._spool.append([msgspec.json.encode(operation)])
        self._metrics.ledger_queue.labels("settle").set(len(self._queue))

    async def _commit(self, operations: list[Operation]) -> None:
        if not self._outage.is_active:
            try:
                await self._apply(operations)
            except (CommitUnknown, *DATABASE_ERRORS) as error:
                self._outage.begin(error)
            else:
                return
        await asyncio.to_thread(self._spool.append, [msgspec.json.encode(op) for op in operations])
        self._metrics.ledger_spooled.set(len(self._spool))

    async def _apply(self, operations: Sequence[Operation]) -> None:
        """Raises only if the server is away."""
        started_s = self._clock.monotonic()
        await self._batch.prepare(self._database, operations)
        results = await commit_batch(self._database, operations, self._batch.apply)
        self._outage.end()
        self._metrics.ledger_commit_seconds.labels("settle").observe(self._clock.monotonic() - started_s)
        self._metrics.ledger_batch_size.labels("settle").observe(len(operations))
        for operation, result in zip(operations, results, strict=True):
            self._count(operation, result)

    def _count(self, operation: Operation, result: Outcome | Exception) -> None:
        if isinstance(result, Exception):
            self._reject([operation], result)
        else:
            if result == "duplicate":
                self._log.warning("duplicate_settlement", request_id=operation.request_id)
            self._metrics.ledger_operations.labels("settle", result).inc()

    def _give_up(self, operations: list[Operation], bug: Exception) -> None:
        """A bug of ours, not of the database: their holds stay, and the evidence is kept."""
        self._reject(operations, bug)

    def _reject(self, operations: Sequence[Operation], error: Exception) -> None:
        for operation in operations:
            self._spool.reject(msgspec.json.encode(operation))
            self._metrics.ledger_operations.labels("settle", "rejected").inc()
            self._log.error("settlement_rejected", request_id=operation.request_id, error=str(error))
