"""The Kubernetes manifests, as kustomize renders them: every object by its schema, and true of the code."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest
import yaml
from typer.main import get_command

from engine.config import EngineConfig
from engine.flags import parse
from gateway.cli import app
from gateway.pool.traffic import TOTAL_S_MAX
from gateway.settings import Settings
from scripts.deploy_files import KUSTOMIZE, OVERLAYS, RENDERED, RULE_OBJECT, rule_object, sources_hash
from tests.deploy.metrics import known_metrics
from tests.deploy.objects import Object, custom, faults
from tests.deploy.promql import complaints
from tests.tidy.tree import ROOT

EXAMPLE = KUSTOMIZE / "examples/leaderworkerset.yaml"
PORTS = {"gateway": {8080, 9464}, "worker": {9464}, "pool": {9464}, "engine": {8000}}


@cache
def objects(overlay: str) -> tuple[Object, ...]:
    text = (RENDERED / f"{overlay}.yaml").read_text(encoding="utf-8")
    return tuple(one for one in yaml.load_all(text, Loader=yaml.CSafeLoader) if one)


def example() -> tuple[Object, ...]:
    return tuple(yaml.load_all(EXAMPLE.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader))


def of_kind(overlay: str, *kinds: str) -> dict[str, Object]:
    return {one["metadata"]["name"]: one for one in objects(overlay) if one["kind"] in kinds}


def workloads(overlay: str) -> dict[str, Object]:
    """By component."""
    found = of_kind(overlay, "StatefulSet", "Deployment", "Job")
    return {name.removeprefix("tollway-"): one for name, one in found.items()}


def pod(workload: Object) -> Object:
    found: Object = workload["spec"]["template"]["spec"]
    return found


def engine(overlay: str) -> EngineConfig:
    entry = re.findall(
        r"^ENTRYPOINT (.+)$", (ROOT / "deploy/docker/engine-cuda.Dockerfile").read_text(), re.MULTILINE
    )
    (container,) = pod(workloads(overlay)["engine"])["containers"]
    return parse([*json.loads(entry[0])[4:], *container["args"]])


def settings_of(overlay: str, component: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    (container,) = pod(workloads(overlay)[component])["containers"]
    with monkeypatch.context() as patch:
        for key, value in of_kind(overlay, "ConfigMap")["tollway"]["data"].items():
            patch.setenv(key, value)
        for variable in container["env"]:
            is_name = "fieldRef" in variable["valueFrom"]
            value = "tollway-gateway-0" if is_name else "postgresql://user:secret@host/name"
            patch.setenv(variable["name"], value)
        return Settings()


def test_rendered_files_are_of_these_sources() -> None:
    """`make deploy-files` renders them anew; `make deploy-check` sees that kubectl renders the same."""
    for overlay in OVERLAYS:
        head = (RENDERED / f"{overlay}.yaml").read_text(encoding="utf-8").splitlines()[0]
        assert head.endswith(sources_hash()), f"{overlay}: run `make deploy-files`"


def test_the_rule_object_is_made_of_the_rules() -> None:
    assert RULE_OBJECT.read_text(encoding="utf-8") == rule_object()


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_objects_match_their_schemas(overlay: str) -> None:
    assert len(objects(overlay)) >= 20
    wrong = [fault for one in objects(overlay) for fault in faults(one)]
    assert not wrong, "\n".join(wrong)


def test_the_example_matches_its_schemas() -> None:
    wrong = [fault for one in example() for fault in faults(one)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "kind", ["StatefulSet", "HorizontalPodAutoscaler", "ServiceMonitor", "PrometheusRule"]
)
def test_a_field_that_does_not_exist_is_found(kind: str) -> None:
    one = next(one for one in objects("prod") if one["kind"] == kind)
    assert faults({**one, "spec": {**one["spec"], "replicaz": 1}})


def test_custom_objects_have_schemas() -> None:
    seen = {(one["apiVersion"], one["kind"]) for overlay in OVERLAYS for one in objects(overlay)}
    seen |= {(one["apiVersion"], one["kind"]) for one in example()}
    assert set(custom()) <= seen | {("monitoring.coreos.com/v1", "PrometheusRule")}
    assert {kind for _, kind in custom()} == {
        "ScaledObject",
        "LeaderWorkerSet",
        "PrometheusRule",
        "ServiceMonitor",
    }


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pods_are_restricted(overlay: str) -> None:
    for component, workload in workloads(overlay).items():
        spec = pod(workload)
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["runAsUser"] == 10001
        # Only a supervisor that runs engines itself speaks to the API server.
        assert spec["automountServiceAccountToken"] is ("--kubernetes" in spec["containers"][0]["args"])
        assert component == "pool" or "serviceAccountName" not in spec
        assert spec["enableServiceLinks"] is False, "TOLLWAY_GATEWAY_PORT would be an unknown setting"
        for container in spec["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"]["memory"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_commands_and_settings_exist(overlay: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command: Any = get_command(app)
    for component in ("gateway", "worker", "pool", "migrate"):
        (container,) = pod(workloads(overlay)[component])["containers"]
        assert container["args"][0] in command.commands
        settings = settings_of(overlay, component, monkeypatch)
        assert settings.server.metrics_port == 9464
        mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert str(settings.security.key_pepper_file).startswith("/run/secrets/tollway/")
        assert "/run/secrets/tollway" in mounts
        if component == "gateway":
            assert {str(settings.ledger.spool_dir), settings.server.files} <= mounts
    assert engine(overlay).server.host == "0.0.0.0"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_nothing_is_cut_by_a_rollout(overlay: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, server = settings_of(overlay, "gateway", monkeypatch), engine(overlay).server
    longest = max(settings.upstream.total_timeout_s, TOTAL_S_MAX)
    drains = {
        "gateway": (settings.server.drain_timeout_s, 0.0),
        "engine": (
            server.drain_timeout_s,
            server.drain_grace_s,
        ),  # what came with the grace's end counts from there
    }
    for component, (drain_s, grace_s) in drains.items():
        spec = pod(workloads(overlay)[component])
        pause_s = int(spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][1])
        assert drain_s >= longest + grace_s
        assert spec["terminationGracePeriodSeconds"] >= drain_s + pause_s
    assert workloads(overlay)["worker"]["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    budgets = of_kind(overlay, "PodDisruptionBudget")
    assert {budget["spec"]["maxUnavailable"] for budget in budgets.values()} == {1}
    assert set(budgets) == {"tollway-gateway", "tollway-worker", "tollway-engine"}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_ports_and_probes_exist(overlay: str) -> None:
    served = {
        "gateway": json.loads((ROOT / "docs/openapi.json").read_text(encoding="utf-8"))["paths"],
        "engine": json.loads((ROOT / "docs/engine-openapi.json").read_text(encoding="utf-8"))["paths"],
    }
    for component, ports in PORTS.items():
        (container,) = pod(workloads(overlay)[component])["containers"]
        assert {port["containerPort"] for port in container["ports"]} == ports
        named = {port["name"] for port in container["ports"]}
        probes = [container[probe]["httpGet"] for probe in container if probe.endswith("Probe")]
        assert len(probes) >= 2
        for probe in probes:
            assert probe["port"] in named
            assert probe["path"] in served.get(component, {"/metrics": {}})
        assert container["livenessProbe"]["periodSeconds"] >= 30


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_services_and_autoscalers_lead_to_something(overlay: str) -> None:
    pods = [workload["spec"]["template"] for workload in workloads(overlay).values()]
    for service in of_kind(overlay, "Service").values():
        chosen = service["spec"]["selector"].items()
        if service["metadata"]["name"] == "tollway-engines":
            continue  # leads to what the supervisor makes; tests/gateway/pool/cluster
        met = [one for one in pods if chosen <= one["metadata"]["labels"].items()]
        assert len(met) == 1, service["metadata"]["name"]
        offered = {port["name"] for port in met[0]["spec"]["containers"][0]["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= offered
    names = {(one["kind"], one["metadata"]["name"]) for one in objects(overlay)}
    for scaler in of_kind(overlay, "HorizontalPodAutoscaler", "ScaledObject").values():
        target = scaler["spec"]["scaleTargetRef"]
        assert (target["kind"], target["name"]) in names
    for monitor in of_kind(overlay, "ServiceMonitor").values():
        wanted = {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]}
        ports = {
            port["name"] for one in of_kind(overlay, "Service").values() for port in one["spec"]["ports"]
        }
        assert wanted <= ports


def test_autoscalers_ask_for_metrics_that_exist() -> None:
    adapter = yaml.safe_load((ROOT / "deploy/prometheus/adapter.yaml").read_text(encoding="utf-8"))
    offered = {rule["name"]["as"] for rule in adapter["rules"]["custom"]}
    hpas = of_kind("prod", "HorizontalPodAutoscaler").values()
    asked = {
        metric["pods"]["metric"]["name"]
        for hpa in hpas
        for metric in hpa["spec"]["metrics"]
        if "pods" in metric
    }
    assert asked == offered
    (scaled,) = of_kind("gpu", "ScaledObject").values()
    assert not complaints(scaled["spec"]["triggers"][0]["metadata"]["query"], known_metrics())
    assert not of_kind("gpu", "HorizontalPodAutoscaler"), "two autoscalers would fight"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_only_our_own_reach_engines(overlay: str) -> None:
    policies = of_kind(overlay, "NetworkPolicy")
    assert policies["tollway-default"]["spec"] == {"podSelector": {}, "policyTypes": ["Ingress"]}
    (rule,) = policies["tollway-engine"]["spec"]["ingress"]
    pods, monitoring = rule["from"]
    (chosen,) = pods["podSelector"]["matchExpressions"]
    assert chosen["values"] == ["gateway", "worker", "pool"]
    assert "namespaceSelector" not in pods, "the same namespace"
    assert monitoring == {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    selector = policies["tollway-engine"]["spec"]["podSelector"]["matchLabels"]
    labels = workloads(overlay)["engine"]["spec"]["template"]["metadata"]["labels"]
    assert selector.items() <= labels.items()


def test_gpu_engines_tolerate_the_taint_of_gpu_nodes() -> None:
    spec = pod(workloads("gpu")["engine"])
    assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in spec["tolerations"]
    assert spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
