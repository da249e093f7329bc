"""Deployments and StatefulSets as the cluster runs them: digests, probes, grace, replicas. Knows `kubectl`'s JSON."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.checks.say import failed, first_few, passed, skipped, warned
from gateway.checks.types import Check, Facts, Finding, Json

__all__ = ["CHECKS"]

_NOT_GIVEN = (
    "not given",
    "--workloads FILE: `kubectl get deployments,statefulsets -n NAMESPACE -o json > FILE`",
)
_DEFAULT_GRACE_S = 30


def images_are_pinned(facts: Facts) -> Finding:
    name = "image digests"
    if facts.workloads is None:
        return skipped(name, *_NOT_GIVEN)
    every = [
        (where, str(container.get("image", ""))) for where, container in _containers(facts, with_init=True)
    ]
    loose = [f"{where} ({image})" for where, image in every if "@sha256:" not in image]
    if loose:
        return failed(
            name,
            f"by tag alone: {first_few(loose)}",
            "pin name@sha256:…: a tag can be another image tomorrow",
        )
    return passed(name, f"{len(every)} images by digest")


def containers_are_probed(facts: Facts) -> Finding:
    name = "probes"
    if facts.workloads is None:
        return skipped(name, *_NOT_GIVEN)
    bare = [
        f"{where} ({', '.join(missing)})"
        for where, container in _containers(facts)
        if (missing := [probe for probe in ("livenessProbe", "readinessProbe") if probe not in container])
    ]
    if bare:
        return failed(
            name,
            f"missing: {first_few(bare)}",
            "/healthz and /readyz of the gateway, /health and /ready of engines",
        )
    return passed(name, "liveness and readiness everywhere")


def slow_starters_are_waited_for(facts: Facts) -> Finding:
    """Loading weights takes minutes, and liveness would kill the container meanwhile."""
    name = "startup probes"
    if facts.workloads is None:
        return skipped(name, *_NOT_GIVEN)
    engines = [(where, container) for where, container in _containers(facts) if _has_gpu(container)]
    bare = [where for where, container in engines if "startupProbe" not in container]
    if bare:
        return failed(name, f"none for {first_few(bare)}", "a startupProbe long enough to load the weights")
    return passed(name, f"for {len(engines)} containers with GPUs")


def pods_may_finish(facts: Facts) -> Finding:
    name = "termination grace"
    if facts.workloads is None:
        return skipped(name, *_NOT_GIVEN)
    longest = facts.longest_request_s
    short = [
        f"{_name(workload)} ({grace:g} s)"
        for workload in facts.workloads
        if (grace := _pod(workload).get("terminationGracePeriodSeconds", _DEFAULT_GRACE_S)) < longest
    ]
    if short:
        return warned(
            name,
            f"shorter than the longest request ({longest:g} s): {first_few(short)}",
            "raise it, or streams are cut",
        )
    return passed(name, f"at least {longest:g} s")


def rollouts_keep_all(facts: Facts) -> Finding:
    name = "rollouts"
    if facts.workloads is None:
        return skipped(name, *_NOT_GIVEN)
    losing = [
        _name(workload)
        for workload in facts.workloads
        if workload.get("kind") == "Deployment"
        and workload["spec"].get("strategy", {}).get("rollingUpdate", {}).get("maxUnavailable", "25%")
        not in (0, "0", "0%")
    ]
    if losing:
        return warned(
            name,
            f"maxUnavailable is not 0: {first_few(losing)}",
            "a rollout must add a pod before it takes one",
        )
    return passed(name, "no pod is taken before another is ready")


def _containers(facts: Facts, *, with_init: bool = False) -> Iterator[tuple[str, Json]]:
    for workload in facts.workloads or ():
        pod = _pod(workload)
        for container in [*pod.get("containers", ()), *(pod.get("initContainers", ()) if with_init else ())]:
            yield f"{_name(workload)}/{container['name']}", container


def _pod(workload: Json) -> Json:
    spec: Json = workload["spec"]["template"]["spec"]
    return spec


def _name(workload: Json) -> str:
    return str(workload["metadata"]["name"])


def _has_gpu(container: Json) -> bool:
    limits = container.get("resources", {}).get("limits", {})
    return any(name.endswith("/gpu") for name in limits)


CHECKS: tuple[Check, ...] = (
    images_are_pinned,
    containers_are_probed,
    slow_starters_are_waited_for,
    pods_may_finish,
    rollouts_keep_all,
)
