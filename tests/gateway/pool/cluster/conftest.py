"""A supervisor over a fake cluster, with the real client, over real HTTP, on a real database."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from kubernetes.aio import client

from gateway.clock import SystemClock
from gateway.db import Database
from gateway.keyring import Keyring
from gateway.obs.metrics import Metrics
from gateway.pool.access import PoolAccess
from gateway.pool.cluster import ClusterApi, ClusterTemplate, KubernetesLauncher
from gateway.pool.models import Pool
from gateway.pool.plan import Limits
from gateway.pool.probe import Probe
from gateway.pool.repository import PoolRepository
from gateway.pool.spec import EngineSpec
from gateway.pool.static import StaticLauncher
from gateway.pool.supervisor import Supervisor
from gateway.pool.views import ReplicaView
from tests.fakes.cluster import NAMESPACE, TOKEN, Cluster
from tests.gateway.pool.conftest import KEY
from tests.patience import LONG_S

NODE = f"kubernetes/{NAMESPACE}"
IMAGE = "registry.example/engine@sha256:" + "0" * 64
TEMPLATE = ClusterTemplate(models={"persistentVolumeClaim": {"claimName": "models", "readOnly": True}})


class ClusterNames(AbstractResolver):
    """The cluster's DNS: whatever pod is meant, the fake answers."""

    async def resolve(self, host: str, port: int = 0, family: Any = socket.AF_INET) -> list[ResolveResult]:
        assert host.endswith(f".{NAMESPACE}.svc"), host
        address: ResolveResult = {
            "hostname": host, "host": "127.0.0.1", "port": port, "family": socket.AF_INET, "proto": 0, "flags": 0,
        }  # fmt: skip
        return [address]

    async def close(self) -> None:
        pass


def spec(**changes: object) -> EngineSpec:
    given: dict[str, object] = {
        "model": "/models/stub.gguf", "served_names": ("stub",), "max_replicas": 4, "kubernetes": {"image": IMAGE},
    }  # fmt: skip
    return EngineSpec.model_validate(given | changes)


def api_of(cluster: Cluster, token: str = TOKEN) -> ClusterApi:
    configuration = client.Configuration(host=cluster.url)
    configuration.api_key["BearerToken"] = f"Bearer {token}"
    return ClusterApi(configuration, NAMESPACE, SystemClock())


class Yard:
    """Stepped by hand, as the tests of local pools do it."""

    def __init__(self, database: Database, cluster: Cluster) -> None:
        self.database, self.cluster = database, cluster
        self.metrics = Metrics()
        self.probe = Probe(KEY, timeout_s=LONG_S)
        self.apis: list[ClusterApi] = []
        self.supervisor = self.another()

    def launcher(self) -> KubernetesLauncher:
        self.apis.append(api_of(self.cluster))
        return KubernetesLauncher(
            self.apis[-1], TEMPLATE, ready_timeout_s=300, drain_timeout_s=300, clock=SystemClock(),
            port=self.cluster.port,
        )  # fmt: skip

    def another(self) -> Supervisor:
        ours = self.launcher()
        launchers = {"tollway": ours, "vllm": ours, "sglang": ours, "external": StaticLauncher()}
        return Supervisor(
            self.database, launchers, self.probe, PoolAccess(_no_ring, os.urandom), node=NODE,
            limits=Limits(300, 300, 1), clock=SystemClock(), metrics=self.metrics, journal_dir=lambda _: None,
        )  # fmt: skip

    async def want(self, spec: EngineSpec, generation: int = 1, state: str = "running") -> None:
        values = {"name": "stub", "spec": spec.model_dump(mode="json"), "generation": generation}
        async with self.database.write() as session:
            await session.merge(Pool(id="pool_stub", desired_state=state, **values))

    async def replicas(self) -> list[ReplicaView]:
        async with self.database.read() as session:
            return await PoolRepository().replicas(session, NODE)

    async def until(
        self, reached: Callable[[list[ReplicaView]], bool], by: Iterable[Supervisor] = ()
    ) -> list[ReplicaView]:
        supervisors = tuple(by) or (self.supervisor,)
        for _ in range(600):
            for supervisor in supervisors:
                await supervisor.step()
            replicas = await self.replicas()
            if reached(replicas):
                return replicas
            await asyncio.sleep(0.05)
        raise AssertionError(f"never reached: {replicas}")

    async def until_ready(self, count: int = 1) -> list[ReplicaView]:
        return await self.until(lambda all_: [one.state for one in all_] == ["ready"] * count)

    async def close(self) -> None:
        await self.probe.close()
        for api in self.apis:
            await api.close()


def _no_ring() -> Keyring:
    raise AssertionError("no pool of these has a key")


@pytest.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):  # which the client would go by
        monkeypatch.delenv(name, raising=False)
    cluster = Cluster()
    await cluster.start()
    yield cluster
    await cluster.stop()


@pytest.fixture
async def yard(database_url: str, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Yard]:
    monkeypatch.setattr("gateway.pool.probe.CheckedResolver", ClusterNames)
    monkeypatch.setattr("gateway.pool.cluster.api.TIMEOUT_S", LONG_S)
    monkeypatch.setattr("gateway.pool.cluster.launcher.FRESH_S", 0.0)
    monkeypatch.setattr("gateway.pool.cluster.launcher._KILL_POLL_S", 0.02)
    database = Database(database_url, name="test")
    yard = Yard(database, cluster)
    yield yard
    await yard.close()
    await database.close()
