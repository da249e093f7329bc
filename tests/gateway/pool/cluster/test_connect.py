"""Which cluster is meant: a kubeconfig's, or none, which is said in a sentence."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import yaml

from gateway.pool.cluster.connect import connect
from gateway.settings import PoolSettings
from tests.fakes.cluster import NAMESPACE, TOKEN, Cluster


@pytest.fixture(autouse=True)
def _in_no_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever these tests run themselves."""
    monkeypatch.setattr("gateway.pool.cluster.connect._NAMESPACE", tmp_path / "namespace")


async def test_a_kubeconfig_names_cluster_and_namespace(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = {"cluster": "c", "user": "u", "namespace": NAMESPACE}
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "one",
        "contexts": [{"name": "one", "context": context}],
        "clusters": [{"name": "c", "cluster": {"server": cluster.url}}],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
    }  # fmt: skip
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    monkeypatch.setattr("kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(file))
    template = tmp_path / "engines.yaml"
    template.write_text("", encoding="utf-8")
    async with AsyncExitStack() as stack:
        launcher, namespace = await connect(stack, template, PoolSettings())
        assert namespace == NAMESPACE
        assert await launcher.strays([]) == ()
    assert cluster.calls["list", "", "pods"] == 1


async def test_without_a_cluster_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    none = str(tmp_path / "none")
    monkeypatch.setattr("kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", none)
    template = tmp_path / "engines.yaml"
    template.write_text("", encoding="utf-8")
    async with AsyncExitStack() as stack:
        with pytest.raises(ValueError, match="no Kubernetes cluster"):
            await connect(stack, template, PoolSettings())
