"""The objects of replicas: true to their schemas in every shape, restricted, patient, and without a secret."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.ids import ReplicaId
from gateway.pool.cluster.manifest import manifest
from gateway.pool.cluster.template import ClusterTemplate
from gateway.pool.spec import EngineSpec
from tests.deploy.objects import faults
from tests.gateway.pool.cluster.conftest import IMAGE, TEMPLATE, spec

REPLICA = ReplicaId("rep_0197a3c2d4e5f60718293a4b5c6d7e8f")
FULL = ClusterTemplate(
    models={"hostPath": {"path": "/models"}}, journal_class="fast", node_selector={"pool": "gpu"},
    tolerations=({"key": "nvidia.com/gpu", "operator": "Exists"},), pull_secrets=("registry",),
)  # fmt: skip


def made(spec: EngineSpec, template: ClusterTemplate = TEMPLATE) -> dict[str, Any]:
    return manifest(
        REPLICA, "stub", spec, template, ready_timeout_s=301, drain_timeout_s=900.5, port=8000
    )  # fmt: skip


def pods(one: dict[str, Any]) -> list[dict[str, Any]]:
    group = one["spec"].get("leaderWorkerTemplate")
    templates = [group["leaderTemplate"], group["workerTemplate"]] if group else [one["spec"]["template"]]
    return [template["spec"] for template in templates]


@pytest.mark.parametrize("kind", ["tollway", "vllm", "sglang"])
@pytest.mark.parametrize("hosts", [1, 2])
@pytest.mark.parametrize("template", [TEMPLATE, FULL, ClusterTemplate()], ids=["usual", "full", "bare"])
def test_every_shape_matches_its_schema(kind: str, hosts: int, template: ClusterTemplate) -> None:
    if kind == "tollway" and hosts > 1:
        with pytest.raises(ValueError, match="one host"):
            spec(kind=kind, kubernetes={"image": IMAGE, "hosts": hosts})
        return
    needs = {"image": IMAGE, "hosts": hosts, "gpus_per_host": 2}
    one = made(spec(kind=kind, tensor_parallel=2 * hosts, kubernetes=needs), template)
    assert faults(one) == []
    assert one["kind"] == ("LeaderWorkerSet" if hosts > 1 else "StatefulSet")
    for pod in pods(one):
        assert (pod["enableServiceLinks"], pod["automountServiceAccountToken"]) == (False, False)
        assert pod["terminationGracePeriodSeconds"] >= 901 + 5
        (container,) = pod["containers"]
        assert container["resources"]["limits"]["nvidia.com/gpu"] == "2"
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_probes_wait_as_long_as_the_supervisor() -> None:
    (pod,) = pods(made(spec()))
    startup = pod["containers"][0]["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 301
    assert startup["httpGet"]["path"] == "/ready"
    assert pod["containers"][0]["livenessProbe"]["periodSeconds"] >= 30


def test_keys_are_named_and_not_written() -> None:
    reference = {"secretKeyRef": {"name": "tollway", "key": "internal_key"}}
    for kind, names in {
        "tollway": {"TOLLWAY_ENGINE_INTERNAL_KEY", "TOLLWAY_ENGINE_API_KEY"},
        "vllm": {"VLLM_API_KEY"},
        "sglang": {"ENGINE_KEY"},
    }.items():
        (pod,) = pods(made(spec(kind=kind)))
        found = {
            one["name"]: one.get("valueFrom") for one in pod["containers"][0]["env"] if "valueFrom" in one
        }
        assert found == dict.fromkeys(names, reference)
    (pod,) = pods(made(spec(kind="sglang")))
    assert "$(ENGINE_KEY)" in pod["containers"][0]["command"]


def test_what_a_flag_says_is_not_expanded_by_a_kubelet() -> None:
    (pod,) = pods(made(spec(flags={"chat-template": "$(TOLLWAY_ENGINE_API_KEY)"})))
    command = pod["containers"][0]["command"]
    assert command[:4] == ["python3", "-m", "engine", "serve"]
    assert command[-1] == "$$(TOLLWAY_ENGINE_API_KEY)"


def test_a_group_is_found_and_joined_by_its_leaders_name() -> None:
    flags = {"chat-template": "a'; rm -rf x"}
    needs = {"image": IMAGE, "hosts": 2}
    leader, worker = pods(made(spec(kind="vllm", flags=flags, kubernetes=needs)))
    shell = leader["containers"][0]["command"]
    assert shell[:2] == ["sh", "-c"]
    assert shell[2].startswith("ray start --head --port=6379 && exec vllm serve ")
    assert """--chat-template 'a'"'"'; rm -rf x'""" in shell[2]
    assert worker["containers"][0]["command"][2].endswith("--address=$(LWS_LEADER_ADDRESS):6379 --block")
    ranks = [pod["containers"][0]["command"][-1] for pod in pods(made(spec(kind="sglang", kubernetes=needs)))]
    assert ranks == ["0", "$(LWS_WORKER_INDEX)"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"gpus": (0, 1, 2, 3)}, "a cluster chooses its devices"),
        ({"kubernetes": {"image": IMAGE, "gpus_per_host": 2}}, "2 GPUs for 1 parts"),
        ({"kubernetes": {"image": IMAGE, "memory": "4"}}, "pattern"),
        ({"kind": "external", "urls": ["http://one:1"]}, "not started here"),
    ],
)
def test_what_a_cluster_cannot_do_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        spec(**changes)


def test_an_object_holds_no_secret_and_names_its_pool() -> None:
    text = json.dumps(made(spec()))
    assert "the-key" not in text
    assert '"app.kubernetes.io/instance": "stub"' in text
