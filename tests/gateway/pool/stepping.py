"""A supervisor on a real database that is stepped by hand, whatever its replicas run on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence

from gateway.clock import SystemClock
from gateway.db import Database
from gateway.keyring import Keyring
from gateway.obs.metrics import Metrics
from gateway.pool.access import PoolAccess
from gateway.pool.actor import JournalDir
from gateway.pool.launcher import Launcher
from gateway.pool.models import Pool
from gateway.pool.plan import Limits
from gateway.pool.probe import Probe
from gateway.pool.repository import PoolRepository
from gateway.pool.spec import EngineKind, EngineSpec
from gateway.pool.static import StaticLauncher
from gateway.pool.supervisor import Supervisor
from gateway.pool.views import ReplicaView


class Stepped:
    """What a supervisor does on one node; who launches there is the subclass's to say."""

    node: str
    supervisor: Supervisor

    def __init__(self, database: Database, probe: Probe) -> None:
        self.database, self.probe = database, probe
        self.metrics = Metrics()

    def supervising(self, ours: Launcher, journal_dir: JournalDir) -> Supervisor:
        launchers: dict[EngineKind, Launcher] = {
            "tollway": ours, "vllm": ours, "sglang": ours, "external": StaticLauncher(),
        }  # fmt: skip
        return Supervisor(
            self.database, launchers, self.probe, PoolAccess(_no_ring, os.urandom), node=self.node,
            limits=Limits(300, 300, 1), clock=SystemClock(), metrics=self.metrics, journal_dir=journal_dir,
        )  # fmt: skip

    async def want(
        self, spec: EngineSpec, name: str = "stub", generation: int = 1, state: str = "running"
    ) -> None:
        values = {"name": name, "spec": spec.model_dump(mode="json"), "generation": generation}
        async with self.database.write() as session:
            await session.merge(Pool(id=f"pool_{name}", desired_state=state, **values))

    async def replicas(self) -> list[ReplicaView]:
        async with self.database.read() as session:
            return await PoolRepository().replicas(session, self.node)

    async def until(
        self, reached: Callable[[list[ReplicaView]], bool], by: Sequence[Supervisor] = ()
    ) -> list[ReplicaView]:
        """Step until the rows are as wanted."""
        for _ in range(2400):
            for supervisor in by or (self.supervisor,):
                await supervisor.step()
            replicas = await self.replicas()
            if reached(replicas):
                return replicas
            await asyncio.sleep(0.05)
        raise AssertionError(f"never reached: {replicas}")

    async def until_ready(self, count: int = 1) -> list[ReplicaView]:
        return await self.until(lambda all_: [one.state for one in all_] == ["ready"] * count)


def _no_ring() -> Keyring:
    raise AssertionError("no pool of these has a key")
