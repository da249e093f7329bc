"""Group commit: operations that wait together are committed together.

While one batch commits, the next one gathers; a batch lingers for more only where nobody waits for it. A batch is one
transaction. It is run again after a deadlock or a serialisation failure; after any other error of the database it
is bisected with savepoints, so that only the operation that cannot be applied fails. Where the server said no, nothing
has taken place; where it said nothing, nobody knows, and CommitUnknown names the session that may still commit. What
an operation does is not known here.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from structlog.typing import FilteringBoundLogger

from gateway.db import (
    DATABASE_ERRORS,
    Backend,
    Database,
    Lane,
    WriteConnection,
    backend_pid,
    is_busy,
    is_serialization_failure,
    is_unavailable,
    was_refused,
)
from gateway.ledger.keeping import was_asked_for

__all__ = ["Apply", "BatchQueue", "CommitUnknown", "QueueFull", "commit_at_once", "commit_batch", "serve"]

Op = TypeVar("Op")
Result = TypeVar("Result")

Apply = Callable[[WriteConnection, Sequence[Op]], Awaitable[Sequence[Result]]]
"""Applies a batch on a connection; one result per operation, in their order. May be called again."""

RETRY_DELAY_S = 0.002
RETRY_FOR_S = 5.0
"""How long a transaction that meets deadlocks is begun again. Each costs the server a second to notice, and whoever
waits for the batch waits for all of them."""


class QueueFull(Exception):
    """The bounded queue is full, or closed."""


class CommitUnknown(Exception):
    """The server went away during the commit: the transaction may or may not have taken place, and while `backend` is
    alive it may yet."""

    def __init__(self, backend: Backend | None = None) -> None:
        super().__init__()
        self.backend = backend


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
        except BaseException as bug:
            if was_asked_for(bug):
                raise
            log.exception("ledger_batch_failed", operations=len(batch))
            give_up(batch, bug if isinstance(bug, Exception) else _unknown(None, bug))


async def commit_batch(
    database: Database, operations: Sequence[Op], apply: Apply[Op, Result]
) -> list[Result | Exception]:
    """One transaction for all of them. An exception in the result belongs to that operation alone.

    Raises if the server is unavailable, or others hold the rows: CommitUnknown if it went away in the commit, else
    what was noticed, and then nothing has taken place.
    """
    loop = asyncio.get_running_loop()
    until_s = loop.time() + RETRY_FOR_S
    isolate = has_reconnected = False
    while True:
        results: list[Result | Exception] | None = None
        pid: int | None = None
        try:
            async with database.transaction() as connection:
                pid = await backend_pid(connection)
                if isolate:
                    results = await _apply_isolated(connection, operations, apply)
                else:
                    results = list(await apply(connection, operations))
            return results
        except asyncio.CancelledError as stray:
            if was_asked_for(stray):
                raise
            raise _unknown(pid, stray) from stray
        except DATABASE_ERRORS as error:
            if is_serialization_failure(error):
                if loop.time() > until_s:
                    raise
                await asyncio.sleep(RETRY_DELAY_S)
            elif is_unavailable(error):
                if results is not None and not was_refused(error):
                    raise _unknown(pid, error) from error
                if has_reconnected or is_busy(error) or isinstance(error, TimeoutError):
                    raise  # it has waited long enough
                has_reconnected = True  # an idle connection may have died long before the server came back
            elif isolate:
                return [error] * len(operations)  # not the operations: the transaction itself cannot be
            else:
                isolate = True


async def commit_at_once(database: Database, statement: Callable[[Lane], Awaitable[Result]]) -> Result | None:
    """One statement that commits by itself. None if the server refused it for what it asks: nothing has taken place,
    and `commit_batch` finds out what is wrong with it. Raises as `commit_batch` does.
    """
    await database.lane.ready()
    pid = database.lane.pid
    try:
        return await statement(database.lane)
    except asyncio.CancelledError as stray:
        if was_asked_for(stray):
            raise
        raise _unknown(pid, stray) from stray
    except DATABASE_ERRORS as error:
        if not is_unavailable(error):
            return None
        if was_refused(error):
            raise
        raise _unknown(pid, error) from error


def _unknown(pid: int | None, cause: BaseException) -> CommitUnknown:
    lost = Backend(pid, asyncio.get_running_loop().time()) if pid is not None else None
    unknown = CommitUnknown(lost)
    unknown.__cause__ = cause
    return unknown


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
