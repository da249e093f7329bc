"""Deployments as kubectl prints them: each line on one that is wrong."""

from __future__ import annotations

import copy
from typing import Any

from gateway.checks import workloads
from gateway.checks.types import Facts, Verdict
from gateway.settings import Settings

PROBE = {"httpGet": {"path": "/healthz", "port": 8080}}
GOOD: dict[str, Any] = {
    "kind": "Deployment",
    "metadata": {"name": "engine"},
    "spec": {
        "strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        "template": {"spec": {
            "terminationGracePeriodSeconds": 960,
            "containers": [{
                "name": "engine", "image": "registry.example/engine@sha256:" + "a" * 64,
                "livenessProbe": PROBE, "readinessProbe": PROBE, "startupProbe": PROBE,
                "resources": {"limits": {"nvidia.com/gpu": "1"}},
            }],
        }},
    },
}  # fmt: skip


def _verdicts(workload: dict[str, Any]) -> dict[str, str]:
    facts = Facts(settings=Settings(), workloads=[workload])
    return {check.__name__: check(facts).verdict.value for check in workloads.CHECKS}


def _broken(**changes: Any) -> dict[str, Any]:
    """The good one with its container's, pod's or spec's fields changed; None takes one away."""
    workload = copy.deepcopy(GOOD)
    pod = workload["spec"]["template"]["spec"]
    for place, name in (key.split("__") for key in changes):
        where = {"container": pod["containers"][0], "pod": pod, "spec": workload["spec"]}[place]
        value = changes[f"{place}__{name}"]
        where.pop(name) if value is None else where.update({name: value})
    return workload


def test_a_good_one_passes() -> None:
    assert set(_verdicts(GOOD).values()) == {"pass"}


def test_each_mistake_is_one_line() -> None:
    unpinned = {"name": "init", "image": "busybox:1"}
    for workload, check, verdict in (
        (_broken(container__image="registry.example/engine:latest"), "images_are_pinned", "fail"),
        (_broken(pod__initContainers=[unpinned]), "images_are_pinned", "fail"),
        (_broken(container__readinessProbe=None), "containers_are_probed", "fail"),
        (_broken(container__startupProbe=None), "slow_starters_are_waited_for", "fail"),
        (_broken(pod__terminationGracePeriodSeconds=None), "pods_may_finish", "warn"),
        (_broken(pod__terminationGracePeriodSeconds=899), "pods_may_finish", "warn"),
        (_broken(spec__strategy={}), "rollouts_keep_all", "warn"),
    ):
        found = _verdicts(workload)
        assert found.pop(check) == verdict, check
        assert set(found.values()) == {"pass"}, check


def test_a_container_without_a_gpu_starts_at_once() -> None:
    workload = _broken(container__startupProbe=None, container__resources={})
    assert _verdicts(workload)["slow_starters_are_waited_for"] == "pass"


def test_not_given_is_not_judged() -> None:
    facts = Facts(settings=Settings())
    findings = [check(facts) for check in workloads.CHECKS]
    assert {finding.verdict for finding in findings} == {Verdict.SKIP}
    assert all("kubectl get" in finding.advice for finding in findings)
