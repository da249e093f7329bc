"""Performing the supervisor's decisions on rows and processes, one replica at a time.

Place: between `plan` and the launchers. When requests must stop coming the row is written first; when a
process starts its address and devices are booked first. Decides nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gateway.clock import Clock
from gateway.db import Database
from gateway.ids import IdSource, ReplicaId
from gateway.obs.logging import get_logger
from gateway.obs.metrics import Metrics
from gateway.pool.launcher import Assignment, Launcher, LaunchError, LauncherUnavailable, Running
from gateway.pool.probe import Probe
from gateway.pool.repository import Lease, LeaseLost, PoolRepository
from gateway.pool.spec import EngineKind
from gateway.pool.views import Act, Action, PoolView, ReplicaState, ReplicaView

__all__ = ["Actor", "JournalDir", "Memory"]

JournalDir = Callable[[ReplicaId], str | None]
"""Where a replica's usage journal is, if it writes one here."""


@dataclass(slots=True)
class Memory:
    """What this process knows of a replica beyond its row."""

    running: Running | None = None
    answered_at: float | None = None  # on the clock's monotonic scale
    told_to_drain: bool = False


class Actor:
    def __init__(
        self,
        database: Database,
        launchers: Mapping[EngineKind, Launcher],
        probe: Probe,
        *,
        clock: Clock,
        metrics: Metrics,
        journal_dir: JournalDir,
    ) -> None:
        self.memory: dict[ReplicaId, Memory] = {}
        self._database = database
        self._repository = PoolRepository()
        self._launchers = launchers
        self._probe = probe
        self._metrics = metrics
        self._ids = IdSource(clock)
        self._journal_dir = journal_dir
        self._log = get_logger("gateway.pool")

    async def perform(
        self, lease: Lease, action: Action, pool: PoolView, crew: Sequence[ReplicaView]
    ) -> None:
        """What cannot be done now is decided anew in the next step."""
        try:
            await self._perform(lease, action, pool, crew)
        except LauncherUnavailable as error:
            self._log.warning("not done now", act=action.act.value, pool=pool.name, error=str(error))

    async def _perform(
        self, lease: Lease, action: Action, pool: PoolView, crew: Sequence[ReplicaView]
    ) -> None:
        if action.act is Act.CREATE:
            async with self._database.write() as session:
                fresh = ReplicaId(self._ids.new("rep"))
                await self._repository.create(session, lease, fresh, pool)
            return
        replica = next(replica for replica in crew if replica.id == action.replica_id)
        self._log.info(action.act.value, replica=replica.id, pool=pool.name, reason=action.reason)
        match action.act:
            case Act.LAUNCH:
                await self._launch(lease, replica, pool)
            case Act.PUBLISH:
                async with self._database.write() as session:
                    await self._repository.publish(session, lease, replica.id, action.epoch)
            case Act.UNPUBLISH:
                await self._move(lease, replica, "starting", action.reason)
            case Act.LOSE:
                await self._move(lease, replica, "lost", action.reason)
            case Act.FAIL:
                await self._move(lease, replica, "failed", action.reason)
                await self._end(replica, pool)
            case Act.DRAIN:
                await self._drain(lease, replica, pool, action.reason)
            case Act.KEEP:
                async with self._database.write() as session:
                    await self._repository.keep(session, lease, replica.id, pool.generation)
            case Act.STOP:
                await self._end(replica, pool)
                await self._move(lease, replica, "stopped", action.reason)

    async def _launch(self, lease: Lease, replica: ReplicaView, pool: PoolView) -> None:
        launcher = self._launchers[pool.spec.kind]
        await launcher.kill(replica.id, None)  # what an earlier life may have left

        def assign(taken: Sequence[Assignment], last: str | None) -> Assignment:
            return launcher.assign(replica.id, pool.spec, taken, last)

        reason = "first" if replica.restarts == 0 else "restart"
        try:
            async with self._database.write() as session:
                assignment = await self._repository.book(
                    session, lease, replica, assign, self._journal_dir(replica.id)
                )
            running = await launcher.launch(replica.id, pool.name, pool.spec, assignment)
        except LaunchError as error:
            self._log.error("launch failed", replica=replica.id, pool=pool.name, error=str(error))
            await self._move(lease, replica, "failed", str(error))
            return
        self._metrics.replica_starts.labels(pool=pool.name, reason=reason).inc()
        self.memory[replica.id] = Memory(running)
        try:
            async with self._database.write() as session:
                await self._repository.launched(session, lease, replica.id, running.mark)
        except LeaseLost:
            await launcher.kill(replica.id, running)  # its address is the new owner's to give
            raise

    async def _drain(self, lease: Lease, replica: ReplicaView, pool: PoolView, reason: str) -> None:
        if replica.state != "draining":
            await self._move(lease, replica, "draining", reason)
        memory = self.memory[replica.id]
        if memory.told_to_drain or memory.running is None:
            return
        launcher = self._launchers[pool.spec.kind]
        memory.told_to_drain = True  # once: a second SIGTERM would abort the requests that are running
        tells_engine = launcher.exit_is_end and pool.spec.kind == "tollway"
        if not (tells_engine and replica.url and await self._probe.drain(replica.url)):
            try:
                await launcher.terminate(memory.running)
            except LauncherUnavailable:
                memory.told_to_drain = False
                raise

    async def _end(self, replica: ReplicaView, pool: PoolView) -> None:
        memory = self.memory.pop(replica.id, Memory())
        await self._launchers[pool.spec.kind].kill(replica.id, memory.running)

    async def _move(self, lease: Lease, replica: ReplicaView, state: ReplicaState, reason: str) -> None:
        async with self._database.write() as session:
            await self._repository.move(session, lease, replica, state, reason)
