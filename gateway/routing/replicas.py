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
from gateway.routing.retries import RetryBudget
from gateway.routing.target import ReplicaRow, Target
from gateway.wire.load import EngineLoad, EngineStatus

__all__ = ["LiveReplica", "Replicas"]

POLL_INTERVAL_S = 1.0
FORGET_AFTER_S = 600.0


@dataclass(slots=True, eq=False)
class LiveReplica:
    """One replica as this gateway knows it."""

    row: ReplicaRow
    breaker: Breaker
    in_flight: int = 0
    reported: EngineLoad | None = None
    own_when_reported: int = 0
    is_draining: bool = False
    gone_since: float | None = None

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
        self, target: Target, excluded: Collection[ReplicaId] = (), below_load: int | None = None
    ) -> list[LiveReplica]:
        """Who may be asked, best first: ready, not draining, breaker closed or due for a probe.

        `below_load` leaves only replicas that report less load than that.
        """
        pool = self._pools.get(target.pool_id)
        if pool is None:
            return []
        now = self._clock.monotonic()
        candidates = [
            Candidate(replica.id, replica.load, replica.reported.kv_usage if replica.reported else 0.0)
            for replica in pool.members.values()
            if replica.id not in excluded
            and not replica.is_draining
            and replica.breaker.allows(now)
            and (below_load is None or replica.load < below_load)
        ]
        pool.turn += 1
        ordered = choose(target.policy, candidates, Ask(pool.turn, self._draw))
        return [pool.members[candidate.replica_id] for candidate in ordered]

    def began(self, replica: LiveReplica) -> None:
        replica.breaker.began(self._clock.monotonic())
        replica.in_flight += 1

    def ended(self, replica: LiveReplica) -> None:
        replica.in_flight -= 1
        assert replica.in_flight >= 0, "a request ends once"

    def succeeded(self, replica: LiveReplica) -> None:
        replica.breaker.succeeded()
        self._metrics.breaker_open.labels(replica=replica.id).set(0)

    def failed(self, replica: LiveReplica) -> None:
        replica.breaker.failed(self._clock.monotonic())
        self._metrics.breaker_open.labels(replica=replica.id).set(replica.breaker.is_open)

    def refused(self, replica: LiveReplica, *, is_draining: bool) -> None:
        """Overloaded or draining: alive, but not for now. A poll that says `ready` ends the draining."""
        replica.breaker.neutral()
        replica.is_draining = replica.is_draining or is_draining

    def observe(self, replica: LiveReplica, load: EngineLoad | None) -> None:
        """A fresh load report of a reply or a poll."""
        if load is None:
            return
        if replica.reported is not None and load.epoch != replica.reported.epoch:
            replica.breaker.restarted()
        replica.reported = load
        replica.own_when_reported = replica.in_flight

    async def poll_forever(self, ask: Callable[[ReplicaRow], Awaitable[EngineStatus | None]]) -> None:
        """Asks every replica that can report once a second. Silence is not counted: only requests judge."""
        while True:
            asked = [replica for pool in self._pools.values() for replica in pool.members.values()]
            answers = await asyncio.gather(*(ask(replica.row) for replica in asked))
            for replica, status in zip(asked, answers, strict=True):
                if status is not None:
                    self.observe(replica, status.load)
                    replica.is_draining = status.state == "draining"
                    self._export(replica, status.load)
            await asyncio.sleep(POLL_INTERVAL_S)

    def in_flight(self) -> int:
        """Attempts of this gateway that some engine is working on."""
        return sum(replica.in_flight for replica in self._known.values())

    def _admit(self, row: ReplicaRow) -> None:
        replica = self._known.get(row.id)
        if replica is None:
            replica = self._known[row.id] = LiveReplica(row, Breaker(self._rules))
        elif replica.row.epoch != row.epoch:
            replica.breaker.restarted()
            replica.is_draining = False
        if replica.gone_since is not None:
            replica.gone_since, replica.is_draining = None, False
        replica.row = row
        self._pools.setdefault(row.pool_id, _Pool()).members[row.id] = replica

    def _export(self, replica: LiveReplica, load: EngineLoad) -> None:
        self._metrics.replica_running.labels(replica=replica.id).set(load.running)
        self._metrics.replica_waiting.labels(replica=replica.id).set(load.waiting)
        self._metrics.replica_kv_usage.labels(replica=replica.id).set(load.kv_usage)
