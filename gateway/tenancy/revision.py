"""The revision feed: the one poller that tells a process when configuration has changed.

A change of a tenant, key, permission, limit, route, price, pool or budget raises its topic's revision in the
transaction of the change. Every process polls all topics each second; what it keeps in memory is *fresh* while
a poll that began at most `FRESH_S` ago succeeded. So a revocation takes effect everywhere within 2 s, and
nothing takes effect while Postgres is away. Shared by the key directory and by routing's catalogue. It does
not know what they keep.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from gateway.clock import Clock
from gateway.db import Database, is_unavailable
from gateway.obs.logging import get_logger
from gateway.obs.metrics import Metrics
from gateway.tenancy.repository import TenancyRepository

__all__ = ["FRESH_S", "POLL_INTERVAL_S", "RevisionFeed", "Topic"]

Topic = Literal["tenancy", "routing", "budget", "sessions"]

POLL_INTERVAL_S = 1.0
POLL_TIMEOUT_S = 0.8
FRESH_S = 2.0

_NEVER: Mapping[str, int] = MappingProxyType({})
_log = get_logger(__name__)


@dataclass(slots=True)
class _Subscriber:
    topics: tuple[Topic, ...]
    on_change: Callable[[], Awaitable[None]]
    seen: Mapping[str, int]


class RevisionFeed:
    """Owns the polling task: `await start()` polls once at once; `await stop()` ends it.

    Give it a `Database` of its own (one connection): a poll that waits behind others would let everything
    that depends on it go stale.
    """

    def __init__(
        self, database: Database, clock: Clock, metrics: Metrics, timeout_s: float = POLL_TIMEOUT_S
    ) -> None:
        self._database = database
        self._timeout_s = timeout_s
        self._clock = clock
        self._metrics = metrics
        self._repository = TenancyRepository()
        self._revisions = _NEVER
        self._confirmed_at: float | None = None
        self._subscribers: list[_Subscriber] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def fresh(self) -> bool:
        return self.age_s <= FRESH_S

    @property
    def age_s(self) -> float:
        """Seconds since the start of the last poll that succeeded; infinite before the first."""
        return float("inf") if self._confirmed_at is None else self._clock.monotonic() - self._confirmed_at

    def revision(self, topic: Topic) -> int:
        """The last revision seen; -1 before the first poll."""
        return self._revisions.get(topic, -1)

    def subscribe(self, topics: tuple[Topic, ...], on_change: Callable[[], Awaitable[None]]) -> None:
        """`on_change` runs in the poll that first sees a topic move (the first poll included), and again in
        the next one if the database went away while it ran: until then the feed is not fresh."""
        self._subscribers.append(_Subscriber(topics, on_change, _NEVER))

    async def start(self) -> None:
        await self.poll()
        self._task = asyncio.create_task(self._poll_forever(), name="revision-feed")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def poll(self) -> bool:
        """One reading of the feed; False if the database did not answer in time."""
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._database.lane.ready()
                revisions = await self._repository.revisions(self._database.lane)
            await self._tell(revisions)
        except Exception as error:
            if not is_unavailable(error):
                raise
            self._note_failure(error)
            return False
        self._confirmed_at = began
        self._metrics.feed_fresh.set(1)
        self._metrics.feed_revision.set(sum(revisions.values()))
        return True

    async def _tell(self, revisions: Mapping[str, int]) -> None:
        """Subscribers first, then the revisions: nobody may act on a revision that a subscriber has not met."""
        for subscriber in self._subscribers:
            if any(revisions.get(topic) != subscriber.seen.get(topic) for topic in subscriber.topics):
                await subscriber.on_change()
                subscriber.seen = revisions
        self._revisions = revisions

    def _note_failure(self, error: BaseException) -> None:
        self._metrics.feed_failures.inc()
        if not self.fresh:
            self._metrics.feed_fresh.set(0)
        _log.warning("revision feed could not be read", error=type(error).__name__, age_s=self.age_s)

    async def _poll_forever(self) -> None:
        while True:
            began = self._clock.monotonic()
            try:
                await self.poll()
            except Exception as error:  # a poller that dies would take every key of the process with it
                self._metrics.unexpected_errors.labels(edge="revision-feed").inc()
                _log.exception("revision feed failed", error=type(error).__name__)
            await asyncio.sleep(max(0.0, POLL_INTERVAL_S - (self._clock.monotonic() - began)))
