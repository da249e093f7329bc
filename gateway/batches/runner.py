"""Works on batches beside a gateway's own traffic: claims one after another, some at once, a turn each.

Every gateway has one, and a batch is leased by one of them at a time. It does not know what a turn does.
"""

from __future__ import annotations

import asyncio

from gateway.batches.parts import Parts
from gateway.batches.repository.running import claim, is_any_due
from gateway.batches.run import BatchRun
from gateway.batches.types import Lease
from gateway.db import DATABASE_ERRORS, reason
from gateway.obs.logging import get_logger

__all__ = ["BatchRunner"]

BROKEN_PAUSE_S = 120.0
"""Longer than what was in flight may take to be settled."""
LOST_PAUSE_S = 300.0
"""Requests of a batch that was lost may still be settled here: this process leaves it to others for so long."""

_log = get_logger(__name__)


class BatchRunner:
    """`start` it inside a running loop, and `await stop()` before what it is made of stops."""

    def __init__(self, parts: Parts, owner: str) -> None:
        self._p = parts
        self._owner = owner
        self._runs: set[asyncio.Task[None]] = set()
        self._lost: dict[str, float] = {}
        self._active: set[str] = set()
        self._ended = asyncio.Event()
        self._is_stopping = False
        self._claiming: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._claiming = asyncio.create_task(self._claim_for_ever())

    async def stop(self) -> None:
        """No line is begun any more; those in flight have `stop_s` to end."""
        self._is_stopping = True
        if self._claiming is not None:
            self._claiming.cancel()
            await asyncio.gather(self._claiming, return_exceptions=True)
        if self._runs:
            await asyncio.wait(self._runs, timeout=self._p.terms.stop_s)
        for run in self._runs:
            run.cancel()
        await asyncio.gather(*self._runs, return_exceptions=True)

    async def _claim_for_ever(self) -> None:
        while True:
            self._ended.clear()
            lease = await self._claim() if len(self._runs) < self._p.terms.batches_at_once else None
            if lease is None:
                try:
                    async with asyncio.timeout(self._p.terms.idle_s):
                        await self._ended.wait()
                except TimeoutError:
                    pass
                continue
            run = asyncio.create_task(self._run(lease))
            self._runs.add(run)
            self._p.metrics.batches_running.set(len(self._runs))
            run.add_done_callback(self._forget)

    async def _claim(self) -> Lease | None:
        now = self._p.clock.monotonic()
        self._lost = {batch_id: until for batch_id, until in self._lost.items() if until > now}
        # Not what is worked on here either, though its lease may have run out: the same requests of one process must not
        # be open twice.
        others, lane = [*self._lost, *self._active], self._p.database.lane
        try:
            await lane.ready()
            if not await is_any_due(lane, others):
                return None
            async with self._p.database.transaction() as connection:
                return await claim(connection, self._owner, self._p.terms.lease_s, others)
        except DATABASE_ERRORS as error:
            _log.warning("batches_not_claimed", error=reason(error))
            return None

    async def _run(self, lease: Lease) -> None:
        run, result = BatchRun(self._p, lease, lambda: self._is_stopping), "failed"
        self._active.add(lease.batch.id)
        try:
            result = await run.run()
        except Exception:
            _log.exception("batch_turn_failed", batch=lease.batch.id)
            await self._give_up(run)
        finally:
            self._active.discard(lease.batch.id)
        if result == "lost":
            self._lost[lease.batch.id] = self._p.clock.monotonic() + LOST_PAUSE_S
        self._p.metrics.batch_runs.labels(result).inc()

    async def _give_up(self, run: BatchRun) -> None:
        """For a while: what broke may be gone by then."""
        try:
            await run.release(None, BROKEN_PAUSE_S)
        except DATABASE_ERRORS as error:  # its lease runs out by itself
            _log.warning("batch_not_released", error=reason(error))

    def _forget(self, run: asyncio.Task[None]) -> None:
        self._runs.discard(run)
        self._p.metrics.batches_running.set(len(self._runs))
        self._ended.set()
