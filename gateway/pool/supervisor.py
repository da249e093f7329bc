"""The supervisor: makes what runs follow what is wanted.

Place: the main loop of `tollway pool`. Each step holds the node's lease, looks at every replica, lets
`plan` decide and performs the actions: the row first when requests must stop coming, the process first
when they may start. Replicas outlive their supervisor; the next one adopts them. Sees no request.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gateway.clock import Clock
from gateway.db import Database, is_unavailable
from gateway.ids import PoolId, ReplicaId
from gateway.obs.logging import get_logger
from gateway.obs.metrics import Metrics
from gateway.pool.access import PoolAccess
from gateway.pool.actor import Actor, JournalDir, Memory
from gateway.pool.launcher import Assignment, Launcher, LauncherUnavailable
from gateway.pool.nodes import NodeState, states_of_node, write_stage
from gateway.pool.plan import Limits, is_stable, plan
from gateway.pool.probe import Probe
from gateway.pool.process import is_dead, own_identity
from gateway.pool.repository import LEASE_S, Lease, LeaseLost, PoolRepository
from gateway.pool.scaler import Scaler
from gateway.pool.sizing import stage
from gateway.pool.spec import EngineKind
from gateway.pool.views import Act, PoolView, ReplicaState, ReplicaView, Seen, Stage

__all__ = ["Supervisor"]

STEP_S = 1.0
RENEW_S = LEASE_S / 5
STRAYS_EVERY_S = 30.0
_STATES: tuple[ReplicaState, ...] = ("starting", "ready", "draining", "failed", "lost")


@dataclass(slots=True)
class _World:
    """One look at everything."""

    pools: list[PoolView]
    replicas: list[ReplicaView]
    seen: dict[ReplicaId, Seen] = field(default_factory=dict)

    @property
    def taken(self) -> list[Assignment]:
        return [Assignment(one.url, one.gpus, one.devices) for one in self.replicas if one.url is not None]


class Supervisor:
    def __init__(
        self,
        database: Database,
        launchers: Mapping[EngineKind, Launcher],
        probe: Probe,
        access: PoolAccess,
        *,
        node: str,
        limits: Limits,
        clock: Clock,
        metrics: Metrics,
        journal_dir: JournalDir,
    ) -> None:
        """`launchers` by engine kind."""
        self._database = database
        self._repository = PoolRepository()
        self._launchers = launchers
        self._probe = probe
        self._access = access
        self._node = node
        self._owner = own_identity()
        self._limits = limits
        self._clock = clock
        self._metrics = metrics
        self._actor = Actor(database, launchers, probe, clock=clock, metrics=metrics, journal_dir=journal_dir)
        self._log = get_logger("gateway.pool")
        self._scaler = Scaler(database, clock)
        self._told: dict[PoolId, Stage] = {}
        self._lease: Lease | None = None
        self._renewed_at = 0.0
        self._swept_at: float | None = None

    async def run(self, stopping: asyncio.Event, *, drain: bool = False) -> None:
        """Reconcile until told to stop. Replicas keep running for the next supervisor, unless `drain`."""
        while not stopping.is_set():
            await self._guarded(drain_all=False)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), STEP_S)
        if drain:
            await self.drain_all()
        await self._release()

    async def drain_all(self) -> None:
        """End every replica of this node, each within the drain timeout."""
        deadline = self._clock.monotonic() + self._limits.drain_timeout_s + LEASE_S
        while self._clock.monotonic() < deadline:
            if await self._guarded(drain_all=True):
                break
            await asyncio.sleep(STEP_S / 5)
        await self._release()

    async def step(self, *, drain_all: bool = False) -> bool:
        """One reconciliation. True when no replica is left."""
        if not await self._hold():
            return False
        assert self._lease is not None
        lease = self._lease
        world = await self._look(drain_all)
        created = False
        async with self._database.read() as session:
            now = await self._repository.now(session)
        taken = world.taken
        for pool in world.pools:
            crew = [replica for replica in world.replicas if replica.pool_id == pool.id]
            room = self._launchers[pool.spec.kind].room(pool.spec, taken)
            now_at = stage(pool, crew, world.seen, room)
            await self._tell(lease, pool, now_at)
            await self._scaler.consider(lease, pool, crew, world.seen, now_at, now)
            for action in plan(pool, crew, world.seen, now, self._limits, room):
                await self._actor.perform(lease, action, pool, crew)
                created = created or action.act is Act.CREATE
        for replica in world.replicas:
            if is_stable(replica, now):
                async with self._database.write() as write:
                    await self._repository.forgive(write, lease, replica.id)
        await self._sweep(world)
        self._count(world)
        return await self.step(drain_all=drain_all) if created else not world.replicas

    async def _guarded(self, *, drain_all: bool) -> bool:
        try:
            return await self.step(drain_all=drain_all)
        except LeaseLost:
            self._lease = None
            self._log.warning("lease lost", node=self._node)
        except Exception as error:
            if not is_unavailable(error):
                self._metrics.unexpected_errors.labels(edge="pool").inc()
            self._log.exception("step failed", node=self._node)
        return False

    async def _tell(self, lease: Lease, pool: PoolView, now: Stage) -> None:
        """How far it is, when that has changed."""
        before = self._told.get(pool.id)
        if before == now:
            return
        if before is None or before.phase != now.phase:
            self._log.info("pool is " + now.phase, pool=pool.name, reason=now.reason)
        async with self._database.write() as session:
            await self._repository.fence(session, lease)
            await write_stage(session, self._node, pool.id, now)
        self._told[pool.id] = now

    # -- the lease ----------------------------------------------------------------------------------

    async def _hold(self) -> bool:
        now = self._clock.monotonic()
        if self._lease is not None and now - self._renewed_at < RENEW_S:
            return True
        async with self._database.write() as session:
            lease = await self._repository.acquire(session, self._node, self._owner, is_dead)
        if lease != self._lease:
            # Whatever happened in between was another's doing.
            self._actor.memory.clear()
            self._told.clear()
            self._scaler.forget()
            self._log.info("lease taken" if lease else "lease held by another", node=self._node)
        self._lease, self._renewed_at = lease, now
        return lease is not None

    async def _release(self) -> None:
        if self._lease is None:
            return
        try:
            async with self._database.write() as session:
                await self._repository.release(session, self._lease)
        except Exception as error:
            if not is_unavailable(error):
                raise
        self._lease = None

    # -- looking ------------------------------------------------------------------------------------

    async def _look(self, drain_all: bool) -> _World:
        async with self._database.read() as session:
            pools = await self._repository.pools(session)
            replicas = await self._repository.replicas(session, self._node)
            scaled = await states_of_node(session, self._node)
        pools = [_scaled(pool, scaled.get(pool.id)) for pool in pools]
        # A pool for another kind of node is not wanted here; what this node ran of it leaves.
        pools = [
            pool if self._runs(pool) and not drain_all else replace(pool, wanted=False) for pool in pools
        ]
        if any(pool.spec.gpus for pool in pools):
            for launcher in set(self._launchers.values()):
                await launcher.survey()
        of = {pool.id: pool for pool in pools}
        looks = await asyncio.gather(*(self._look_at(replica, of[replica.pool_id]) for replica in replicas))
        seen = dict(zip((replica.id for replica in replicas), looks, strict=True))
        for gone in self._actor.memory.keys() - seen.keys():
            del self._actor.memory[gone]
        return _World(pools, replicas, seen)

    def _runs(self, pool: PoolView) -> bool:
        return self._launchers[pool.spec.kind].runs(pool.spec)

    async def _look_at(self, replica: ReplicaView, pool: PoolView) -> Seen:
        kind = pool.spec.kind
        memory = self._actor.memory.setdefault(replica.id, Memory())
        if replica.state == "failed":
            return Seen(None, None)
        launcher = self._launchers[kind]
        # An external engine is found wherever its row points; a starting one still has to be assigned.
        unassigned = replica.url is None or (kind == "external" and replica.state == "starting")
        if memory.running is None and not unassigned:
            memory.running = await launcher.find(replica.id, replica.mark)
            if memory.running is not None and (replica.mark is not None or memory.running.name):
                pid = replica.mark.pid if replica.mark is not None else None
                self._log.info("replica adopted", replica=replica.id, pid=pid)
        if memory.running is None:
            return Seen(None, None)
        observed = await launcher.observe(memory.running)
        status = None
        if observed.alive and replica.url is not None:
            access = self._access.of(pool.id, pool.sealed_api_key, pool.spec.ca_bundle)
            status = await self._probe.status(replica.url, kind, access)
        now = self._clock.monotonic()
        if status is not None or memory.answered_at is None:
            memory.answered_at = now
        return Seen(observed, status, now - memory.answered_at, launcher.fault(replica.devices))

    async def _sweep(self, world: _World) -> None:
        """End engines of ours that no row knows: what a supervisor left when it lost its lease or its database."""
        now = self._clock.monotonic()
        if self._swept_at is not None and now - self._swept_at < STRAYS_EVERY_S:
            return
        self._swept_at = now
        known = {replica.id for replica in world.replicas}
        try:
            for launcher in set(self._launchers.values()):
                for stray in await launcher.strays(known):
                    self._log.warning("stray engine ended", replica=stray)
                    await launcher.kill(stray, None)
        except LauncherUnavailable as error:
            self._log.warning("strays are left", node=self._node, error=str(error))

    def _count(self, world: _World) -> None:
        for pool in world.pools:
            states = [replica.state for replica in world.replicas if replica.pool_id == pool.id]
            for state in _STATES:
                self._metrics.pool_replicas.labels(pool=pool.name, state=state).set(states.count(state))


def _scaled(pool: PoolView, state: NodeState | None) -> PoolView:
    return replace(pool, scaled_to=state.replicas, scaled_at=state.scaled_at) if state is not None else pool
