"""Engine replicas as objects of a Kubernetes namespace.

Place: the launcher of a supervisor that runs in a cluster, beside the local one and behind the same protocol. The namespace
is this installation's alone: whatever carries our label there and is in no row is ended. While the API server does not
answer everything is taken to run, and the probe alone says otherwise. Knows no database and no desired state.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from gateway.clock import Clock
from gateway.ids import ReplicaId
from gateway.obs.logging import get_logger
from gateway.pool.cluster.api import AlreadyThere, ClusterApi, ClusterUnavailable, PodSeen, WorkloadSeen
from gateway.pool.cluster.manifest import (
    MANAGED_BY,
    PORT,
    REPLICA_LABEL,
    address,
    manifest,
    name_of,
    workload_of,
)
from gateway.pool.cluster.template import ClusterTemplate
from gateway.pool.launcher import Assignment, LaunchError, LauncherUnavailable, Observed, Running
from gateway.pool.process import ProcessMark
from gateway.pool.spec import EngineSpec

__all__ = ["KubernetesLauncher"]

FRESH_S = 0.5
"""One list serves all looks of a step."""
FORCED_AFTER = timedelta(seconds=30)
"""So long after a pod should have ended its node is taken to be dead, and the pod out of the books."""
_KILL_POLLS = 10
_KILL_POLL_S = 0.2
_HOPELESS = frozenset(
    {"CrashLoopBackOff", "ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError"}
)
"""Reasons to wait that a kubelet gives after it has tried."""


@dataclass(frozen=True, slots=True)
class _Picture:
    at_s: float
    workloads: dict[str, WorkloadSeen]
    """By name."""
    pods: dict[str, list[PodSeen]]
    """By the replica's id."""


class KubernetesLauncher:
    exit_is_end = False

    def __init__(
        self,
        api: ClusterApi,
        template: ClusterTemplate,
        *,
        ready_timeout_s: float,
        drain_timeout_s: float,
        clock: Clock,
        port: int = PORT,
    ) -> None:
        self._api = api
        self._template = template
        self._ready_timeout_s = ready_timeout_s
        self._drain_timeout_s = drain_timeout_s
        self._clock = clock
        self._port = port
        self._picture: _Picture | None = None
        self._looking = asyncio.Lock()
        self._log = get_logger("gateway.pool")

    def runs(self, spec: EngineSpec) -> bool:
        return spec.kubernetes is not None

    def assign(
        self, replica_id: ReplicaId, spec: EngineSpec, taken: Collection[Assignment], last: str | None
    ) -> Assignment:
        assert spec.kubernetes is not None
        url = address(replica_id, spec.kubernetes, self._template, self._api.namespace, self._port)
        return Assignment(url, ())

    def room(self, spec: EngineSpec, taken: Collection[Assignment]) -> int | None:
        """The cluster's scheduler knows, and a pod waits until there is."""
        return None

    async def launch(
        self, replica_id: ReplicaId, pool: str, spec: EngineSpec, assignment: Assignment
    ) -> Running:
        assert spec.kubernetes is not None
        body = manifest(
            replica_id,
            pool,
            spec,
            self._template,
            ready_timeout_s=self._ready_timeout_s,
            drain_timeout_s=self._drain_timeout_s,
            port=self._port,
        )
        self._picture = None
        try:
            await self._api.create(workload_of(spec.kubernetes), body)
        except AlreadyThere:
            # Another supervisor's, or of a request whose answer was lost: it is ended before the next attempt.
            raise LaunchError(f"there is a {body['kind']} {name_of(replica_id)} already") from None
        except ClusterUnavailable as error:
            raise LaunchError(f"the cluster: {error}") from None
        return Running(None, name=name_of(replica_id))

    async def find(self, replica_id: ReplicaId, mark: ProcessMark | None) -> Running | None:
        name, picture = name_of(replica_id), await self._glance()
        return Running(None, name=name) if picture is None or name in picture.workloads else None

    async def observe(self, running: Running) -> Observed:
        picture = await self._glance()
        if picture is None:
            return Observed(alive=True)
        workload = picture.workloads.get(running.name)
        if workload is None:
            return Observed(alive=False, last_words="its object is gone")
        pods = picture.pods.get(workload.labels.get(REPLICA_LABEL, ""), [])
        if workload.replicas == 0 and not pods:
            return Observed(alive=False, exit_code=0)
        leader = next((pod for pod in pods if pod.name == f"{running.name}-0"), None)
        return _judged(leader) if leader is not None else Observed(alive=True)

    async def terminate(self, running: Running) -> None:
        """Its pods get SIGTERM, on which an engine drains, and are not started again."""
        workload = (await self._look()).workloads.get(running.name)
        self._picture = None
        if workload is not None:
            await self._api.empty(workload)

    async def kill(self, replica_id: ReplicaId, running: Running | None) -> None:
        for _ in range(_KILL_POLLS):
            self._picture = None
            picture = await self._look()
            workload = picture.workloads.get(name_of(replica_id))
            pods = picture.pods.get(replica_id, [])
            if workload is None and not pods:
                return
            if workload is not None and not workload.is_leaving:
                await self._api.delete(workload)
            for pod in pods:
                await self._end(pod)
            await asyncio.sleep(_KILL_POLL_S)
        raise LauncherUnavailable(f"{name_of(replica_id)} is still ending")

    async def survey(self) -> None:
        """Devices are the cluster's business."""

    def fault(self, devices: Collection[str]) -> str | None:
        return None

    async def strays(self, known: Collection[ReplicaId]) -> tuple[ReplicaId, ...]:
        picture = await self._look()
        found = {workload.labels.get(REPLICA_LABEL, "") for workload in picture.workloads.values()}
        return tuple(sorted(ReplicaId(one) for one in found if one and one not in known))

    async def _end(self, pod: PodSeen) -> None:
        overdue = pod.leaving_at is not None and self._clock.now() > pod.leaving_at + FORCED_AFTER
        await self._api.delete_pod(pod, 0 if overdue else 1)

    async def _glance(self) -> _Picture | None:
        """None while the API server does not answer."""
        try:
            return await self._look()
        except ClusterUnavailable as error:
            self._log.warning("cluster is silent", error=str(error))
            return None

    async def _look(self) -> _Picture:
        async with self._looking:
            now = self._clock.monotonic()
            if self._picture is None or now - self._picture.at_s >= FRESH_S:
                workloads = await self._api.workloads(MANAGED_BY)
                pods: dict[str, list[PodSeen]] = {}
                for pod in await self._api.pods(MANAGED_BY):
                    pods.setdefault(pod.labels.get(REPLICA_LABEL, ""), []).append(pod)
                self._picture = _Picture(now, {one.name: one for one in workloads}, pods)
            return self._picture


def _judged(pod: PodSeen) -> Observed:
    """A container that its kubelet has started again by itself is another life of the engine, which tells its own epoch."""
    if pod.phase == "Failed":
        return Observed(False, pod.exit_code, pod.last_words or pod.reason)
    if pod.waiting in _HOPELESS:
        return Observed(False, pod.exit_code, pod.last_words or pod.waiting)
    return Observed(alive=True)
