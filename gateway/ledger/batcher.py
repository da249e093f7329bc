"""Group commit: operations that wait together are committed together.

While one batch commits, the next one gathers; a batch lingers for more only where nobody waits for it. A batch is one
transaction. It is run again after a deadlock or a serialisation failure; after any other error of the database it
is bisected with savepoints, so that only the operation that cannot be applied fails. What an operation does is not
known here.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from structlog.typing import FilteringBoundLogger

from gateway.db import (
    DATABASE_ERRORS,
    Database,
    Lane,
    WriteConnection,
    is_serialization_failure,
    is_unavailable,
)

__all__ = ["Apply", "BatchQueue", "CommitUnknown", "QueueFull", "commit_at_once", "commit_batch", "serve"]

Op = TypeVar("Op")
Result = TypeVar("Result")

Apply = Callable[[WriteConnection, Sequence[Op]], Awaitable[Sequence[Result]]]
"""Applies a batch on a connection; one result per operation, in their order. May be called again."""

SERIALIZATION_RETRIES_MAX = 20
RETRY_DELAY_S = 0.002


class QueueFull(Exception):
    """The bounded queue is full, or closed."""


class CommitUnknown(Exception):
    """The server went away during the commit: the transaction may or may not have taken place."""


class BatchQueue(Generic[Op]):
    """A bounded queue that hands out everything that waits, up to `batch_max`, as one batch."""

    def __init__(self, *, capacity: int, batch_max: int, linger_s: float = 0.0) -> None:
        """`linger_s`: how long a batch that is not full waits for more; for operations whose callers do not wait."""
        assert 0 < batch_max <= capacity
        self._linger_s = linger_s
        self._waiting: deque[Op] = deque()
        self._capacity = capacity
        self._batch_max = batch_max
        self.is_closed = False
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def put_nowait(self, operation: Op) -> None:
        if self.is_closed or len(self._waiting) >= self._capacity:
            raise QueueFull
        self._waiting.append(operation)
        self._changed.set()

    async def get(self) -> list[Op]:
        """At least one operation; none once the queue is closed and empty."""
        while not self._waiting and not self.is_closed:
            self._changed.clear()
            await self._changed.wait()
        if self._linger_s and not self.is_closed and len(self._waiting) < self._batch_max:
            await asyncio.sleep(self._linger_s)
        return [self._waiting.popleft() for _ in range(min(self._batch_max, len(self._waiting)))]

    def close(self) -> None:
        """Take nothing more; what waits is still handed out."""
        self.is_closed = True
        self._changed.set()


async def serve(
    queue: BatchQueue[Op],
    commit: Callable[[list[Op]], Awaitable[None]],
    give_up: Callable[[list[Op], Exception], None],
    log: FilteringBoundLogger,
) -> None:
    """Commit batches until the queue is closed and empty. A bug fails its batch, never the loop."""
    while batch := await queue.get():
        try:
            await commit(batch)
        except Exception as bug:
            log.exception("ledger_batch_failed", operations=len(batch))
            give_up(batch, bug)


async def commit_batch(
    database: Database, operations: Sequence[Op], apply: Apply[Op, Result]
) -> list[Result | Exception]:
    """One transaction for all of them. An exception in the result belongs to that operation alone.

    Raises if the server is unavailable: CommitUnknown if that was noticed in the commit, else what was noticed,
    and then nothing has taken place.
    """
    isolate = has_reconnected = False
    for attempt in range(SERIALIZATION_RETRIES_MAX):
        results: list[Result | Exception] | None = None
        try:
            async with database.transaction() as connection:
                if isolate:
                    results = await _apply_isolated(connection, operations, apply)
                else:
                    results = list(await apply(connection, operations))
            return results
        except DATABASE_ERRORS as error:
            if is_unavailable(error):
                if results is not None:
                    raise CommitUnknown from error
                if has_reconnected:
                    raise
                has_reconnected = True  # an idle connection may have died long before the server came back
            elif is_serialization_failure(error):
                await asyncio.sleep(RETRY_DELAY_S * (attempt + 1))
            elif isolate:
                return [error] * len(operations)  # not the operations: the transaction itself cannot be
            else:
                isolate = True
    return [TimeoutError("the transaction met a deadlock each time it was tried")] * len(operations)


async def commit_at_once(database: Database, statement: Callable[[Lane], Awaitable[Result]]) -> Result | None:
    """One statement that commits by itself. None if the server refused it: nothing has taken place, and
    `commit_batch` finds out what is wrong with it. Raises as `commit_batch` does.
    """
    await database.lane.ready()
    try:
        return await statement(database.lane)
    except DATABASE_ERRORS as error:
        if not is_unavailable(error):
            return None
        raise CommitUnknown from error


async def _apply_isolated(
    connection: WriteConnection, operations: Sequence[Op], apply: Apply[Op, Result]
) -> list[Result | Exception]:
    """Halves in savepoints. Their locks are no longer in one order: a deadlock runs the whole batch again."""
    try:
        async with connection.begin_nested():
            return list(await apply(connection, operations))
    except DATABASE_ERRORS as error:
        if is_unavailable(error) or is_serialization_failure(error):
            raise
        if len(operations) == 1:
            return [error]
    middle = len(operations) // 2
    left = await _apply_isolated(connection, operations[:middle], apply)
    return left + await _apply_isolated(connection, operations[middle:], apply)
