"""The one task of a process that speaks to the cache on behalf of the limiter.

Everything goes through one queue and one connection in order: what waits while a round trip is under way goes
out together with the next one, a post travels with the next call (or alone, a moment later), a close never
overtakes its consume, and a caller that is cancelled while its
call is under way does not lose the answer (`on_orphan` gets it). When the cache is away, calls fail at once
with `ChannelLost`, posts wait (bounded), and the task probes until the cache is back. A task that ends by what nobody
foresaw counts as an outage too, and is begun again.
It does not know what the script means.
"""

import asyncio
import contextlib
import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hiredis import pack_command
from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ResponseError

from gateway.cache import CacheUnavailable
from gateway.obs.logging import get_logger

__all__ = ["ChannelLost", "Reply", "ScriptChannel"]

Reply = list[int] | int
BATCH_MAX = 128
POSTS_MAX = 10_000
PROBE_INTERVAL_S = 0.5
POST_DELAY_S = 0.01
"""Long enough to travel with the next call under load, short against the life of any call."""

_log = get_logger(__name__)


class ChannelLost(Exception):
    """The cache did not answer. Whether it executed the call is unknown."""


@dataclass(slots=True, eq=False)
class _Item:
    keys: Sequence[str]
    args: Sequence[str | int | float]
    answer: asyncio.Future[Reply] | None
    """None for a post: nobody waits, and it is sent again after an outage."""
    on_orphan: Callable[[Reply], None] | None = None


class ScriptChannel:
    def __init__(
        self,
        cache: Redis,
        script: str,
        on_lost: Callable[[], None],
        on_recovered: Callable[[], None],
        on_dropped: Callable[[], None],
    ) -> None:
        """`on_recovered` runs before any call that is made after the outage."""
        self._cache = cache
        self._script = script
        self._sha = hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
        self._on_lost = on_lost
        self._on_recovered = on_recovered
        self._on_dropped = on_dropped
        self._queue: deque[_Item] = deque()
        self._under_way: Sequence[_Item] = ()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._up = True
        self._is_stopping = False
        self._task: asyncio.Task[None] | None = None
        self._later: asyncio.TimerHandle | None = None
        self._line: AbstractConnection | None = None
        """Taken from the cache's pool for good: what the pool does at each use costs as much as the script."""

    @property
    def up(self) -> bool:
        return self._up and self._task is not None and not self._task.done()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="limiter-channel")
        self._task.add_done_callback(self._ended)

    async def stop(self, timeout_s: float) -> None:
        """Sends what is posted, if the cache takes it within the time."""
        if self._task is None:
            return
        self._is_stopping = True
        if self.up:
            self._wake.set()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), timeout_s)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._line is not None:
            await self._cache.connection_pool.release(self._line)

    async def call(
        self, keys: Sequence[str], args: Sequence[str | int | float], on_orphan: Callable[[Reply], None]
    ) -> Reply:
        if not self.up:
            raise ChannelLost
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._put(_Item(keys, args, answer, on_orphan))
        self._wake.set()
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                on_orphan(answer.result())
            raise

    def post(self, keys: Sequence[str], args: Sequence[str | int | float]) -> None:
        if len(self._queue) >= POSTS_MAX:
            self._on_dropped()
            return
        self._put(_Item(keys, args, None))
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(POST_DELAY_S, self._wake.set)

    def _put(self, item: _Item) -> None:
        self._queue.append(item)
        self._idle.clear()

    async def _run(self) -> None:
        if not self._up:  # the task before this one died, and what killed it may still be there
            await asyncio.sleep(PROBE_INTERVAL_S)
            await self._recover()
        while True:
            await self._wake.wait()
            await self._drain()
            self._idle.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """However the task ended: nobody may wait for it, and unless it was told to stop there is a next one. What was
        under way is not sent again, since it may be what the task died of."""
        was_up, self._up = self._up, False
        under_way, self._under_way = self._under_way, ()
        _fail_calls([*under_way, *self._queue])
        error = None if task.cancelled() else task.exception()
        if self._is_stopping:
            return
        self._queue = deque(item for item in self._queue if item.answer is None)
        self.start()
        if was_up:
            _log.error("limiter's channel died; limits are local", error=repr(error))
            self._on_lost()
        for item in under_way:
            if item.answer is None:
                self._on_dropped()

    async def _drain(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        while self._queue:
            batch = [self._queue.popleft() for _ in range(min(BATCH_MAX, len(self._queue)))]
            self._under_way = batch
            try:
                replies = await self._send(batch)
            except CacheUnavailable as error:
                await self._wait_for_recovery(batch, error)
                continue
            for item, reply in zip(batch, replies, strict=True):
                self._deliver(item, reply)
            self._under_way = ()
        self._wake.clear()

    async def _send(self, batch: Sequence[_Item]) -> list[Reply | ResponseError]:
        replies = await self._execute(batch)
        unknown = [i for i, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if unknown:  # the server was restarted or its scripts were flushed; nothing of these was executed
            await self._cache.script_load(self._script)
            for i, reply in zip(unknown, await self._execute([batch[i] for i in unknown]), strict=True):
                replies[i] = reply
        return replies

    async def _execute(self, batch: Sequence[_Item]) -> list[Reply | ResponseError]:
        sha = self._sha
        packed = [
            pack_command(("EVALSHA", sha, len(item.keys), *item.keys, *item.args))  # type: ignore[arg-type]  # its stub's
            for item in batch
        ]
        try:
            return await self._round_trip(packed)
        except RedisConnectionError:  # the server may have closed what was idle; an operation counts once
            return await self._round_trip(packed)

    async def _round_trip(self, packed: Sequence[bytes]) -> list[Reply | ResponseError]:
        if self._line is None:
            self._line = await self._cache.connection_pool.get_connection()  # type: ignore[no-untyped-call]  # theirs
        line = self._line
        try:
            await line.send_packed_command(packed, check_health=False)
            return [await _reply(line) for _ in packed]
        except BaseException:
            # Answers that nobody has read would be taken for the next ones.
            await line.disconnect(nowait=True)
            raise

    async def _wait_for_recovery(self, batch: Sequence[_Item], error: BaseException) -> None:
        self._up = False
        _log.error("limiter lost its cache; limits are local", error=repr(error))
        waiting = [*batch, *self._queue]
        self._on_lost()
        _fail_calls(waiting)
        self._queue = deque(item for item in waiting if item.answer is None)
        self._under_way = ()
        await self._recover()

    async def _recover(self) -> None:
        while True:
            if await self._probe():
                break
            await asyncio.sleep(PROBE_INTERVAL_S)
        posted = self._queue
        self._queue = deque()
        self._up = True
        try:
            self._on_recovered()  # what it posts goes first: a close must find its call again
        finally:
            self._queue.extend(posted)
        self._wake.set()
        _log.warning("limiter found its cache again")

    async def _probe(self) -> bool:
        try:
            await self._cache.script_load(self._script)
        except CacheUnavailable:
            return False
        return True

    def _deliver(self, item: _Item, reply: Reply | ResponseError) -> None:
        if isinstance(
            reply, ResponseError
        ):  # memory full, read-only, failing over: this one was not executed
            _log.error("limiter's cache refused an operation", error=repr(reply))
            if item.answer is None:
                self._on_dropped()
            _fail_calls([item])
        elif item.answer is None:
            return
        elif not item.answer.cancelled():
            item.answer.set_result(reply)
        elif item.on_orphan is not None:
            item.on_orphan(reply)


async def _reply(line: AbstractConnection) -> Reply | ResponseError:
    try:
        reply: Reply = await line.read_response()
    except ResponseError as refused:
        return refused
    return reply


def _fail_calls(items: Sequence[_Item]) -> None:
    for item in items:
        if item.answer is not None and not item.answer.done():
            item.answer.set_exception(ChannelLost())
