"""Results on their way to the database: many lines in one statement, each known to be there before anybody goes on.

A line's answer is stored before the ledger settles its request. So a line that was charged has its answer, and a line
without an answer, whatever killed its worker, can be run again under the same id.
"""

from __future__ import annotations

import asyncio

from gateway.batches.repository.running import save_results
from gateway.batches.types import Lease, Result
from gateway.db import DATABASE_ERRORS, Database, is_unavailable, reason
from gateway.obs.failpoints import failpoint
from gateway.obs.logging import get_logger

__all__ = ["LeaseLost", "ResultWriter"]

AT_ONCE = 64
RETRY_S = 0.5

_log = get_logger(__name__)


class LeaseLost(Exception):
    """Somebody else has the batch now."""


class ResultWriter:
    """`run` it beside those who `put`."""

    def __init__(self, database: Database, lease: Lease) -> None:
        self._database = database
        self._lease = lease
        self._waiting: list[tuple[Result, asyncio.Future[None]]] = []
        self._changed = asyncio.Event()

    async def put(self, result: Result) -> None:
        """Stored when this returns. Waits while the database is away. Raises LeaseLost."""
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((result, stored))
        self._changed.set()
        await stored

    async def run(self) -> None:
        while True:
            await self._changed.wait()
            batch, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
            if not self._waiting:
                self._changed.clear()
            error = await self._store([result for result, _ in batch])
            for _, stored in batch:
                if stored.done():  # nobody waits any more
                    continue
                if error is None:
                    stored.set_result(None)
                else:
                    stored.set_exception(error)

    async def _store(self, results: list[Result]) -> Exception | None:
        while True:
            try:
                async with self._database.transaction() as connection:
                    is_mine = await save_results(connection, self._lease, results)
            except DATABASE_ERRORS as error:
                if not is_unavailable(error):
                    return error
                _log.warning("batch_results_wait", batch=self._lease.batch.id, error=reason(error))
                await asyncio.sleep(RETRY_S)
            else:
                failpoint("batch.stored")
                return None if is_mine else LeaseLost()
