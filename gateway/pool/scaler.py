"""Letting the number of a pool's replicas follow its queue: samples in, a row out.

Place: beside the supervisor's step. Decides nothing itself (`scaling` does) and starts nothing (`sizing` asks for it). A
pool whose specification says `autoscaler: external` is somebody else's: its number is never written here.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from gateway.clock import Clock
from gateway.db import Database
from gateway.ids import PoolId, ReplicaId
from gateway.obs.logging import get_logger
from gateway.pool.nodes import write_scale
from gateway.pool.repository import Lease, PoolRepository
from gateway.pool.scaling import History, Sample, decide
from gateway.pool.sizing import wanted_replicas
from gateway.pool.views import PoolView, ReplicaView, Seen, Stage

__all__ = ["Scaler", "sampled"]


class Scaler:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._repository = PoolRepository()
        self._clock = clock
        self._histories: dict[PoolId, tuple[int, History]] = {}
        """With the generation of the specification that they are of."""
        self._log = get_logger("gateway.pool")

    async def consider(
        self,
        lease: Lease,
        pool: PoolView,
        replicas: Sequence[ReplicaView],
        seen: Mapping[ReplicaId, Seen],
        stage: Stage,
        now: datetime,
    ) -> None:
        """While replicas are replaced nothing is learned."""
        if not is_scaled(pool) or stage.phase not in ("settled", "starting", "crashing"):
            self._histories.pop(pool.id, None)
            return
        generation, history = self._histories.get(pool.id, (pool.generation, History()))
        if generation != pool.generation:
            history = History()
        self._histories[pool.id] = (pool.generation, history)
        sample = sampled(self._clock.monotonic(), replicas, seen)
        if sample is not None:
            history.add(sample, pool.spec.scaling)
        decision = decide(
            pool.spec.scaling,
            history,
            wanted=wanted_replicas(pool),
            least=pool.spec.min_replicas,
            most=pool.spec.max_replicas,
            now_s=self._clock.monotonic(),
            since_s=(now - pool.scaled_at).total_seconds() if pool.scaled_at is not None else None,
            may_grow=stage.phase == "settled",
        )
        if decision is not None:
            self._log.info(
                "pool is scaled", pool=pool.name, replicas=decision.replicas, reason=decision.reason
            )
            async with self._database.write() as session:
                await self._repository.fence(session, lease)
                await write_scale(session, lease.node, pool.id, decision.replicas, decision.reason)

    def forget(self) -> None:
        """Another supervisor may have scaled meanwhile."""
        self._histories.clear()


def is_scaled(pool: PoolView) -> bool:
    spec = pool.spec
    return pool.wanted and spec.follows_queue and spec.min_replicas < spec.max_replicas


def sampled(at_s: float, replicas: Sequence[ReplicaView], seen: Mapping[ReplicaId, Seen]) -> Sample | None:
    """None unless all that are ready say what they do: the silent one may be the one that drowns."""
    ready = [one for one in replicas if one.state == "ready"]
    statuses = [seen[one.id].status for one in ready]
    loads = [status.load for status in statuses if status is not None and status.load is not None]
    if not ready or len(loads) < len(ready):
        return None
    delays = [load.delay_s for load in loads if load.delay_s is not None]
    return Sample(
        at_s,
        len(ready),
        sum(load.running for load in loads),
        sum(load.waiting for load in loads),
        sum(delays) / len(delays) if delays else None,
    )
