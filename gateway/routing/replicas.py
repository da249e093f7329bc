"""The live view of the ready replicas: who may be asked now, and how busy each of them is.

Membership comes from the `replica` table (the catalogue's reading), load from reply headers, from polls and
from this gateway's own in-flight count, health from what requests met. Breakers and counts outlive a replica's
absence from the table for a while, so health-check churn does not reset them. It sends nothing itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field

from gateway.clock import Clock
from gateway.ids import PoolId, ReplicaId
from gateway.obs.metrics import Metrics
from gateway.routing.breaker import Breaker, BreakerRules
from gateway.routing.choose import Ask, Candidate, choose
from gateway.routing.prefix import PrefixIndex
from gateway.routing.prompt import Prompt
from gateway.routing.retries import RetryBudget
from gateway.routing.target import ReplicaRow, Target
from gateway.routing.work import Speed, Work
from gateway.wire.load import EngineLoad, EngineStatus

__all__ = ["LiveReplica", "Replicas"]

POLL_INTERVAL_S = 1.0
FORGET_AFTER_S = 600.0
CACHED, HASHED = "prefix", "consistent_hash"

AskStatus = Callable[[ReplicaRow], Awaitable[EngineStatus | None]]


@dataclass(slots=True, eq=False)
class LiveReplica:
    """One replica as this gateway knows it."""

    row: ReplicaRow
    breaker: Breaker
    in_flight: int = 0
    reported: EngineLoad | None = None
    own_when_reported: int = 0
    is_closed: bool = False
    """It says itself that it takes no requests: it drains, or loads."""
    gone_since: float | None = None
    prefixes: PrefixIndex = field(default_factory=PrefixIndex)
    speed: Speed = field(default_factory=Speed)
    waiting_bytes: int = 0
    """Of this gateway's prompts that have no first token yet, without what is cached of them."""

    @property
    def id(self) -> ReplicaId:
        return self.row.id

    @property
    def load(self) -> int:
        """Own requests as of now, and the others' as of the last report."""
        others = self.reported.requests - self.own_when_reported if self.reported is not None else 0
        return self.in_flight + max(0, others)

    @property
    def epoch(self) -> str | None:
        return self.reported.epoch if self.reported is not None else self.row.epoch

    @property
    def queued_bytes(self) -> int:
        """What this gateway knows of by itself, or what the replica says that waits, if that is more."""
        reported = self.reported.waiting * self.speed.mean_bytes if self.reported is not None else 0
        return max(self.waiting_bytes, round(reported))

    def restarted(self) -> None:
        """A new epoch: healthy until it proves otherwise, with empty caches, and without the work of the one before."""
        self.breaker.restarted()
        self.prefixes.clear()
        self.reported = None


@dataclass(slots=True)
class _Pool:
    members: dict[ReplicaId, LiveReplica] = field(default_factory=dict)
    budget: RetryBudget = field(default_factory=RetryBudget)
    turn: int = 0


class Replicas:
    def __init__(
        self,
        clock: Clock,
        metrics: Metrics,
        draw: Callable[[int], int],
        rules: BreakerRules | None = None,
    ) -> None:
        """`draw(n)` is a random integer in [0, n)."""
        self._clock = clock
        self._metrics = metrics
        self._draw = draw
        self._rules = rules or BreakerRules()
        self._known: dict[ReplicaId, LiveReplica] = {}
        self._pools: dict[PoolId, _Pool] = {}

    def update(self, rows: Sequence[ReplicaRow]) -> None:
        """A new reading of the table: who is there now."""
        now = self._clock.monotonic()
        present = {row.id for row in rows}
        for row in rows:
            self._admit(row)
        for replica in list(self._known.values()):
            if replica.id not in present and replica.gone_since is None:
                replica.gone_since = now
                self._pools[replica.row.pool_id].members.pop(replica.id, None)
            elif replica.gone_since is not None and now - replica.gone_since > FORGET_AFTER_S:
                del self._known[replica.id]

    def budget(self, pool_id: PoolId) -> RetryBudget:
        return self._pools.setdefault(pool_id, _Pool()).budget

    def order(
        self,
        target: Target,
        prompt: Prompt,
        excluded: Collection[ReplicaId] = (),
        below_load: int | None = None,
    ) -> list[LiveReplica]:
        """Who may be asked, best first: ready, not closed by itself, breaker closed or due for a probe.

        `below_load` leaves only replicas that report less load than that.
        """
        pool = self._pools.get(target.pool_id)
        if pool is None:
            return []
        now = self._clock.monotonic()
        free = [
            replica
            for replica in pool.members.values()
            if replica.id not in excluded
            and not replica.is_closed
            and replica.breaker.allows(now)
            and (below_load is None or replica.load < below_load)
        ]
        pool.turn += 1
        if len(free) < 2:
            return free
        ask = Ask(pool.turn, self._draw, prompt.num_bytes, prompt.key if target.strategy == HASHED else b"")
        usual = _usual_speed(free)
        candidates = [_candidate(replica, target.strategy, prompt, usual, now) for replica in free]
        ordered = choose(target.strategy, candidates, ask)
        return [pool.members[candidate.replica_id] for candidate in ordered]

    def has_another(self, target: Target, replica: LiveReplica) -> bool:
        """Whether somebody else of the pool could go on if this replica died."""
        pool = self._pools.get(target.pool_id)
        if pool is None:
            return False
        return any(other is not replica and not other.is_closed for other in pool.members.values())

    def began(self, replica: LiveReplica, target: Target, prompt: Prompt) -> Work:
        """A request goes to the replica. `ended` must follow, once."""
        now = self._clock.monotonic()
        replica.breaker.began(now)
        replica.in_flight += 1
        work = Work(replica.waiting_bytes, prompt.num_bytes, now, prompt.is_streamed)
        if target.strategy == CACHED and len(self._pools[target.pool_id].members) > 1:
            work.match = replica.prefixes.match(prompt.chain, now)
            replica.prefixes.record(prompt.chain, now)
        if work.is_waiting:
            replica.waiting_bytes += work.uncached_bytes
        return work

    def first_data(self, replica: LiveReplica, work: Work) -> None:
        """Its prompt is done: what came behind it waits less, and how long it took is known."""
        if work.is_waiting:
            replica.speed.note(work, self._clock.monotonic())
            self._waits_no_more(replica, work)

    def reported(self, replica: LiveReplica, work: Work, prompt_tokens: int, cached_tokens: int) -> None:
        """How much of the prompt was in the replica's cache, as it says itself."""
        if work.match.matched_bytes:
            replica.prefixes.correct(
                work.match, work.prompt_bytes, prompt_tokens, cached_tokens, work.began_at
            )

    def ended(self, replica: LiveReplica, work: Work) -> None:
        replica.in_flight -= 1
        assert replica.in_flight >= 0, "a request ends once"
        self._waits_no_more(replica, work)

    def succeeded(self, replica: LiveReplica) -> None:
        if replica.breaker.is_open:
            self._metrics.breaker_open.labels(replica=replica.id).set(0)
        replica.breaker.succeeded()

    def failed(self, replica: LiveReplica) -> None:
        replica.breaker.failed(self._clock.monotonic())
        self._metrics.breaker_open.labels(replica=replica.id).set(replica.breaker.is_open)

    def refused(self, replica: LiveReplica, *, is_closed: bool) -> None:
        """Overloaded, draining or loading: alive, but not for now. A poll that says `ready` opens it again."""
        replica.breaker.neutral()
        replica.is_closed = replica.is_closed or is_closed

    def observe(self, replica: LiveReplica, load: EngineLoad | None) -> None:
        """A fresh load report of a reply or a poll."""
        if load is None:
            return
        if replica.epoch is not None and load.epoch not in (None, replica.epoch):
            replica.restarted()
        replica.reported = load
        replica.own_when_reported = replica.in_flight

    def load_of(self, replica_id: ReplicaId) -> EngineLoad | None:
        """What it last said about its work, to this gateway."""
        replica = self._known.get(replica_id)
        return replica.reported if replica is not None else None

    async def poll_forever(self, ask: AskStatus) -> None:
        while True:
            await self.poll(ask)
            await asyncio.sleep(POLL_INTERVAL_S)

    async def poll(self, ask: AskStatus) -> None:
        """Asks every replica that can report once. Silence is not counted: only requests judge."""
        asked = [replica for pool in self._pools.values() for replica in pool.members.values()]
        answers = await asyncio.gather(*(ask(replica.row) for replica in asked))
        for replica, status in zip(asked, answers, strict=True):
            if status is not None:
                self.observe(replica, status.load)
                replica.is_closed = status.state != "ready"
                self._export(replica, status.load)

    @property
    def known(self) -> list[LiveReplica]:
        """Those that are there, and those that have left a short while ago."""
        return list(self._known.values())

    def in_flight(self) -> int:
        """Attempts of this gateway that some engine is working on."""
        return sum(replica.in_flight for replica in self._known.values())

    def _admit(self, row: ReplicaRow) -> None:
        replica = self._known.get(row.id)
        if replica is None:
            replica = self._known[row.id] = LiveReplica(row, Breaker(self._rules))
        elif replica.row.epoch != row.epoch:
            if replica.epoch != row.epoch:  # else it has said so itself before the table did
                replica.restarted()
            replica.is_closed = False
        if replica.gone_since is not None:
            replica.gone_since, replica.is_closed = None, False
        replica.row = row
        self._pools.setdefault(row.pool_id, _Pool()).members[row.id] = replica

    def _waits_no_more(self, replica: LiveReplica, work: Work) -> None:
        if work.is_waiting:
            work.is_waiting = False
            replica.waiting_bytes -= work.uncached_bytes

    def _export(self, replica: LiveReplica, load: EngineLoad) -> None:
        self._metrics.replica_running.labels(replica=replica.id).set(load.running)
        self._metrics.replica_waiting.labels(replica=replica.id).set(load.waiting)
        self._metrics.replica_kv_usage.labels(replica=replica.id).set(load.kv_usage)


def _candidate(replica: LiveReplica, strategy: str, prompt: Prompt, usual: float, now: float) -> Candidate:
    kv_usage = replica.reported.kv_usage if replica.reported is not None else 0.0
    if strategy != CACHED:
        return Candidate(replica.id, replica.load, kv_usage)
    return Candidate(
        replica.id,
        replica.load,
        kv_usage,
        replica.prefixes.match(prompt.chain, now).matched_bytes,
        replica.queued_bytes,
        replica.speed.bytes_per_s or usual,
    )


def _usual_speed(replicas: Sequence[LiveReplica]) -> float:
    """Of those that have been measured; for those that have not."""
    known = [replica.speed.bytes_per_s for replica in replicas if replica.speed.bytes_per_s is not None]
    return sum(known) / len(known) if known else 1.0
