"""A supervisor over a fake cluster, with the real client, over real HTTP, on a real database."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from kubernetes.aio import client

from gateway.clock import SystemClock
from gateway.db import Database
from gateway.pool.cluster import ClusterApi, ClusterTemplate, KubernetesLauncher
from gateway.pool.probe import Probe
from gateway.pool.spec import EngineSpec
from gateway.pool.supervisor import Supervisor
from tests.fakes.cluster import NAMESPACE, TOKEN, Cluster
from tests.gateway.pool.conftest import KEY
from tests.gateway.pool.stepping import Stepped
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


class Yard(Stepped):
    """In a cluster."""

    node = NODE

    def __init__(self, database: Database, cluster: Cluster) -> None:
        super().__init__(database, Probe(KEY, timeout_s=LONG_S))
        self.cluster = cluster
        self.apis: list[ClusterApi] = []
        self.supervisor = self.another()

    def launcher(self) -> KubernetesLauncher:
        self.apis.append(api_of(self.cluster))
        return KubernetesLauncher(
            self.apis[-1], TEMPLATE, ready_timeout_s=300, drain_timeout_s=300, clock=SystemClock(),
            port=self.cluster.port,
        )  # fmt: skip

    def another(self) -> Supervisor:
        return self.supervising(self.launcher(), lambda _: None)

    async def close(self) -> None:
        await self.probe.close()
        for api in self.apis:
            await api.close()


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
