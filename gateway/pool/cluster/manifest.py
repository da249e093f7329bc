"""The Kubernetes object of one replica, as plain data. Pure.

Place: under the cluster's launcher. A replica is a StatefulSet of one, because a StatefulSet of many can neither start
a new pod before an old one leaves nor let the idle one leave first; over several hosts it is a LeaderWorkerSet of one group.
Knows no API and no database.
"""

import math
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.ids import ReplicaId
from gateway.pool.cluster.template import ClusterTemplate
from gateway.pool.spec import EngineSpec, KubernetesNeeds, Placement

__all__ = ["MANAGED_BY", "PORT", "REPLICA_LABEL", "WORKLOADS", "Workload", "address", "manifest", "name_of"]

Object = dict[str, Any]

PORT = 8000
REPLICA_LABEL = "tollway-replica"
MANAGED_BY = "app.kubernetes.io/managed-by=tollway-pool"
_LABELS = {"app.kubernetes.io/managed-by": "tollway-pool", "app.kubernetes.io/component": "engine"}
_JOURNAL = Path("/var/lib/tollway/journal")
_PROBE_S = 10
_PRE_STOP_S = 5
_GRACE_S = 60
"""Beyond the drain: an engine waits until its journal was read, and may take a while to die."""
_RAY_PORT = 6379
_RENDEZVOUS_PORT = 5000


@dataclass(frozen=True, slots=True)
class Workload:
    """One kind of object that a replica can be."""

    group: str
    version: str
    plural: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"


STATEFUL_SET = Workload("apps", "v1", "statefulsets", "StatefulSet")
LEADER_WORKER_SET = Workload("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet")
WORKLOADS = (STATEFUL_SET, LEADER_WORKER_SET)


def name_of(replica_id: ReplicaId) -> str:
    """Of its object: the id as a DNS label."""
    return replica_id.lower().replace("_", "-")


def workload_of(needs: KubernetesNeeds) -> Workload:
    return LEADER_WORKER_SET if needs.hosts > 1 else STATEFUL_SET


def address(
    replica_id: ReplicaId, needs: KubernetesNeeds, template: ClusterTemplate, namespace: str, port: int
) -> str:
    """Known before it runs: of its only pod, or of the leader, whose group has a service of its own."""
    name = name_of(replica_id)
    service = name if needs.hosts > 1 else template.service
    return f"http://{name}-0.{service}.{namespace}.svc:{port}"


def manifest(
    replica_id: ReplicaId,
    pool: str,
    spec: EngineSpec,
    template: ClusterTemplate,
    *,
    ready_timeout_s: float,
    drain_timeout_s: float,
    port: int,
) -> Object:
    needs = spec.kubernetes
    assert needs is not None
    maker = _Maker(replica_id, pool, spec, needs, template, ready_timeout_s, drain_timeout_s, port)
    return maker.group() if needs.hosts > 1 else maker.single()


@dataclass(frozen=True, slots=True)
class _Maker:
    replica_id: ReplicaId
    pool: str
    spec: EngineSpec
    needs: KubernetesNeeds
    template: ClusterTemplate
    ready_timeout_s: float
    drain_timeout_s: float
    port: int

    def single(self) -> Object:
        labels = self._labels()
        claim: Object = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": self.template.journal_size}},
        }
        if self.template.journal_class is not None:
            claim["storageClassName"] = self.template.journal_class
        return {
            "apiVersion": STATEFUL_SET.api_version,
            "kind": STATEFUL_SET.kind,
            "metadata": {"name": name_of(self.replica_id), "labels": labels},
            "spec": {
                "replicas": 1,
                "serviceName": self.template.service,
                "selector": {"matchLabels": {REPLICA_LABEL: self.replica_id}},
                # The journal of a replica that crashed is read when it runs again.
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
                "volumeClaimTemplates": [{"metadata": {"name": "journal"}, "spec": claim}],
                "template": {
                    "metadata": {"labels": labels},
                    "spec": self._pod(self._engine(self._command())),
                },
            },
        }

    def group(self) -> Object:
        leader = self._engine(self._leading())
        worker = {
            **{key: leader[key] for key in ("image", "resources", "securityContext", "env")},
            "name": "worker",
            "command": list(self._following()),
            "volumeMounts": self._mounts(journal=False),
        }
        labels = self._labels() | {"tollway-shape": "group"}
        return {
            "apiVersion": LEADER_WORKER_SET.api_version,
            "kind": LEADER_WORKER_SET.kind,
            "metadata": {"name": name_of(self.replica_id), "labels": labels},
            "spec": {
                "replicas": 1,
                "startupPolicy": "LeaderCreated",
                "leaderWorkerTemplate": {
                    "size": self.needs.hosts,
                    # One of them alone computes nothing.
                    "restartPolicy": "RecreateGroupOnPodRestart",
                    "leaderTemplate": {"metadata": {"labels": labels}, "spec": self._pod(leader)},
                    "workerTemplate": {
                        # No engine to Services and policies: nobody but its leader speaks to it.
                        "metadata": {"labels": labels | {"app.kubernetes.io/component": "engine-worker"}},
                        "spec": self._pod(worker),
                    },
                },
            },
        }

    def _labels(self) -> Object:
        return _LABELS | {"app.kubernetes.io/instance": self.pool, REPLICA_LABEL: self.replica_id}

    def _pod(self, container: Object) -> Object:
        template = self.template
        volumes: list[Object] = [
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": template.shm_size}},
            {"name": "tmp", "emptyDir": {}},
        ]
        if template.models is not None:
            volumes.append({"name": "models", **template.models})
        pod: Object = {
            "automountServiceAccountToken": False,
            # Variables of the services would look like settings.
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                **dict.fromkeys(("runAsUser", "runAsGroup", "fsGroup"), template.user),
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "terminationGracePeriodSeconds": math.ceil(self.drain_timeout_s) + _PRE_STOP_S + _GRACE_S,
            "containers": [container],
            "volumes": volumes,
        }
        if template.node_selector:
            pod["nodeSelector"] = template.node_selector
        if template.tolerations:
            pod["tolerations"] = list(template.tolerations)
        if template.pull_secrets:
            pod["imagePullSecrets"] = [{"name": name} for name in template.pull_secrets]
        return pod

    def _engine(self, command: tuple[str, ...]) -> Object:
        ready, alive = ("/ready", "/health") if self.spec.kind == "tollway" else ("/health", "/health")
        return {
            "name": "engine",
            "image": self.needs.image,
            "command": list(command),
            "env": self._env(),
            "ports": [{"name": "http", "containerPort": self.port}],
            "startupProbe": self._probe(
                ready, _PROBE_S, max(math.ceil(self.ready_timeout_s / _PROBE_S), 1), _PROBE_S
            ),
            "livenessProbe": self._probe(alive, 30, 3, 10),
            "readinessProbe": self._probe(ready, 5, 2, 5),
            "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(_PRE_STOP_S)]}}},
            "resources": self._resources(),
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                # Other people's engines write into their own directories.
                "readOnlyRootFilesystem": self.spec.kind == "tollway",
            },
            # The last lines of its log say why it ended.
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": self._mounts(journal=self.needs.hosts == 1),
        }

    def _probe(self, path: str, period_s: int, failures: int, timeout_s: int) -> Object:
        return {
            "httpGet": {"path": path, "port": "http"},
            "periodSeconds": period_s,
            "failureThreshold": failures,
            "timeoutSeconds": timeout_s,
        }

    def _resources(self) -> Object:
        needs = self.needs
        gpus = {self.template.gpu_resource: str(needs.gpus_per_host)} if needs.gpus_per_host else {}
        return {
            "requests": {"cpu": needs.cpu, "memory": needs.memory, **gpus},
            "limits": {"memory": needs.memory, **gpus},
        }

    def _mounts(self, *, journal: bool) -> list[Object]:
        mounts: list[Object] = [
            {"name": "shm", "mountPath": "/dev/shm"},
            {"name": "tmp", "mountPath": "/tmp"},
        ]
        if self.template.models is not None:
            mounts.append({"name": "models", "mountPath": "/models", "readOnly": True})
        if journal:
            mounts.append({"name": "journal", "mountPath": str(_JOURNAL)})
        return mounts

    def _env(self) -> list[Object]:
        """Keys by reference, under every name that the engine reads; the value is known to the kubelet alone."""
        reference = {"secretKeyRef": {"name": self.template.secret, "key": self.template.secret_key}}
        names = self.spec.environ(self._placement()) or {"ENGINE_KEY": ""}
        plain: list[Object] = [{"name": "HOME", "value": "/tmp"}, {"name": "PYTHONUNBUFFERED", "value": "1"}]
        return plain + [{"name": name, "valueFrom": reference} for name in names]

    def _placement(self) -> Placement:
        return Placement("0.0.0.0", self.port, (), _JOURNAL, "$(ENGINE_KEY)")

    def _command(self) -> tuple[str, ...]:
        """As on a machine, by the image's own Python. A kubelet puts variables into it: only ours are meant."""
        head, *rest = self.spec.command(self._placement())
        program = head if self.spec.kind == "vllm" else "python3"
        ours = "$(ENGINE_KEY)"
        return (program, *(part if part == ours else part.replace("$(", "$$(") for part in rest))

    def _leading(self) -> tuple[str, ...]:
        command = self._command()
        if self.spec.kind == "sglang":
            return (*command, *self._rank("0"))
        ray = f"ray start --head --port={_RAY_PORT}"
        backend = ("--distributed-executor-backend", "ray")
        return ("sh", "-c", f"{ray} && exec {shlex.join((*command, *backend))}")

    def _following(self) -> tuple[str, ...]:
        if self.spec.kind == "sglang":
            return (*self._command(), *self._rank("$(LWS_WORKER_INDEX)"))
        return ("sh", "-c", f"exec ray start --address=$(LWS_LEADER_ADDRESS):{_RAY_PORT} --block")

    def _rank(self, rank: str) -> tuple[str, ...]:
        where = f"$(LWS_LEADER_ADDRESS):{_RENDEZVOUS_PORT}"
        return ("--dist-init-addr", where, "--nnodes", str(self.needs.hosts), "--node-rank", rank)
