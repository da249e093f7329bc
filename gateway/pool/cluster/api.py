"""The few calls to a Kubernetes API server that the launcher makes, by the official client.

Place: under the cluster's launcher. Its verbs are those of the Role in `deploy/kustomize/components/cluster-pools`, which a
test compares. A call that fails for want of the server raises ClusterUnavailable at once: the supervisor comes again in
its next step, and not before the server's own `Retry-After`. One that hangs is waited for once in a step. Knows no replicas.
"""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import aiohttp
import orjson
from kubernetes.aio import client
from kubernetes.aio.client.exceptions import ApiException

from gateway.clock import Clock
from gateway.pool.cluster.manifest import WORKLOADS, Object, Workload
from gateway.pool.launcher import LauncherUnavailable

__all__ = ["AlreadyThere", "ClusterApi", "ClusterUnavailable", "PodSeen", "Refused", "WorkloadSeen"]

TIMEOUT_S = 4.0
"""Less than a lease: a supervisor that waits for a server must not lose its own."""
PAUSE_S = 1.0
"""After a call that took that long: whoever asked in the same step is not made to wait as long once more."""
_PAGE = 500
_LISTS_MAX = 3
_RETRY_AFTER_MAX_S = 60.0


class ClusterUnavailable(LauncherUnavailable):
    """The API server does not answer, or is too busy to."""


class Refused(ClusterUnavailable):
    """The API server will not, however often it is asked; the message is for the operator."""


class AlreadyThere(Exception):
    """An object of that name exists."""


@dataclass(frozen=True, slots=True)
class WorkloadSeen:
    workload: Workload
    name: str
    uid: str
    labels: dict[str, str]
    replicas: int
    is_leaving: bool


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod and how its only container is."""

    name: str
    uid: str
    labels: dict[str, str]
    phase: str
    reason: str
    leaving_at: datetime | None
    """By when it should be gone, once it was told to go."""
    waiting: str = ""
    exit_code: int | None = None
    """How the container ended when it last did."""
    last_words: str = ""


class ClusterApi:
    """Owns an HTTP client; `close()` it."""

    def __init__(self, configuration: client.Configuration, namespace: str, clock: Clock) -> None:
        self._configuration = configuration
        self._client: client.ApiClient | None = None
        self.namespace = namespace
        self._clock = clock
        self._not_before = 0.0

    async def workloads(self, labels: str) -> list[WorkloadSeen]:
        api = client.CustomObjectsApi(self._open())
        found: list[WorkloadSeen] = []
        for workload in WORKLOADS:

            def page(token: str | None, of: Workload = workload) -> Awaitable[Any]:
                call: Awaitable[Any] = api.list_namespaced_custom_object(
                    *self._where(of), _continue=token, **_listing(labels)
                )
                return call

            try:
                found += [_workload(workload, item) for item in await self._all(workload.plural, page)]
            except _NotFound:
                continue  # this cluster has no such kind
        return found

    async def pods(self, labels: str) -> list[PodSeen]:
        api = client.CoreV1Api(self._open())

        def page(token: str | None) -> Awaitable[Any]:
            # As it comes: the client's own types refuse what a newer server says.
            return _read(
                api.list_namespaced_pod_without_preload_content(
                    self.namespace, _continue=token, **_listing(labels)
                )
            )

        return [_pod(item) for item in await self._all("pods", page)]

    async def create(self, workload: Workload, body: Object) -> None:
        """Raises AlreadyThere and Refused."""
        api = client.CustomObjectsApi(self._open())
        await self._call(
            api.create_namespaced_custom_object(
                *self._where(workload), body, field_validation="Strict", _request_timeout=TIMEOUT_S
            )
        )

    async def empty(self, seen: WorkloadSeen) -> None:
        """Let its pods finish and go; the object stays."""
        api = client.CustomObjectsApi(self._open())
        await self._forgiving(
            api.patch_namespaced_custom_object(
                *self._where(seen.workload),
                seen.name,
                {"metadata": {"uid": seen.uid}, "spec": {"replicas": 0}},
                _content_type="application/merge-patch+json",
                _request_timeout=TIMEOUT_S,
            )
        )

    async def delete(self, seen: WorkloadSeen) -> None:
        """This very object: one that another supervisor has made since under its name stays."""
        api = client.CustomObjectsApi(self._open())
        await self._forgiving(
            api.delete_namespaced_custom_object(
                *self._where(seen.workload),
                seen.name,
                body=_only(seen.uid, propagation="Background"),
                _request_timeout=TIMEOUT_S,
            )
        )

    async def delete_pod(self, seen: PodSeen, grace_s: int) -> None:
        """Within `grace_s`; 0: from the books, though its node may never have heard of it."""
        api = client.CoreV1Api(self._open())
        call = api.delete_namespaced_pod_without_preload_content(
            seen.name, self.namespace, body=_only(seen.uid, grace_s=grace_s), _request_timeout=TIMEOUT_S
        )
        await self._forgiving(_read(call))

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    def _where(self, workload: Workload) -> tuple[str, str, str, str]:
        return workload.group, workload.version, self.namespace, workload.plural

    def _open(self) -> client.ApiClient:
        """Belongs to the loop that first asks."""
        if self._client is None:
            self._client = client.ApiClient(self._configuration)
        return self._client

    async def _all(self, what: str, page: Callable[[str | None], Awaitable[Any]]) -> list[Object]:
        """Every item; from the start when the list expires between two pages."""
        for _ in range(_LISTS_MAX):
            found: list[Object] = []
            token: str | None = None
            try:
                while True:
                    said = await self._call(page(token))
                    found += said.get("items") or []
                    token = said["metadata"].get("continue")
                    if not token:
                        return found
            except _Expired:
                continue
        raise ClusterUnavailable(f"the list of {what} expired again and again")

    async def _forgiving(self, call: Awaitable[Any]) -> None:
        """What is gone is as wanted; what is another object by now is looked at again."""
        try:
            await self._call(call)
        except _NotFound:
            return
        except AlreadyThere as error:
            raise ClusterUnavailable(str(error)) from None

    async def _call(self, call: Awaitable[Any]) -> Any:
        if self._clock.monotonic() < self._not_before:
            if isinstance(call, Coroutine):
                call.close()
            raise ClusterUnavailable("the API server is left alone for a while")
        try:
            return await call
        except ApiException as error:
            raise self._meaning(error) from None
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            if isinstance(error, TimeoutError):
                self._not_before = self._clock.monotonic() + PAUSE_S
            raise ClusterUnavailable(f"{type(error).__name__}: {error}") from None

    def _meaning(self, error: ApiException) -> Exception:
        said = f"{error.status} {error.reason}"
        if error.status == 404:
            return _NotFound(said)
        if error.status == 409:
            return AlreadyThere(said)
        if error.status == 410:
            return _Expired(said)
        if error.status == 429:
            self._not_before = self._clock.monotonic() + _retry_after_s(error)
        if error.status in (0, 429) or (error.status or 0) >= 500:
            return ClusterUnavailable(said)
        return Refused(f"{said}: {(error.body or '')[:500]}")


class _NotFound(Exception):
    """No such object, or no such kind."""


class _Expired(Exception):
    """The list was begun too long ago to be gone on with."""


async def _read(call: Awaitable[Any]) -> Any:
    """The answer's JSON. Raises ApiException as the client's other calls do."""
    answer = await call
    body = await answer.read()
    if not 200 <= answer.status < 300:
        error = ApiException(status=answer.status, reason=answer.reason)
        error.body, error.headers = body.decode(errors="replace"), answer.headers
        raise error
    return orjson.loads(body)


def _listing(labels: str) -> dict[str, Any]:
    return {"label_selector": labels, "limit": _PAGE, "_request_timeout": TIMEOUT_S}


def _only(uid: str, *, grace_s: int | None = None, propagation: str | None = None) -> client.V1DeleteOptions:
    return client.V1DeleteOptions(
        preconditions=client.V1Preconditions(uid=uid),
        grace_period_seconds=grace_s,
        propagation_policy=propagation,
    )


def _retry_after_s(error: ApiException) -> float:
    said = (error.headers or {}).get("Retry-After", "1")
    return min(float(said), _RETRY_AFTER_MAX_S) if said.isdecimal() else 1.0


def _workload(workload: Workload, item: Object) -> WorkloadSeen:
    meta = item["metadata"]
    return WorkloadSeen(
        workload,
        meta["name"],
        meta["uid"],
        meta.get("labels") or {},
        item["spec"].get("replicas", 1),
        "deletionTimestamp" in meta,
    )


def _pod(item: Object) -> PodSeen:
    meta, status = item["metadata"], item.get("status") or {}
    container: Object = next(iter(status.get("containerStatuses") or []), {})
    ended = _part(container, "state", "terminated") or _part(container, "lastState", "terminated")
    waiting = _part(container, "state", "waiting")
    leaving_at = meta.get("deletionTimestamp")
    return PodSeen(
        meta["name"],
        meta["uid"],
        meta.get("labels") or {},
        status.get("phase") or "Pending",
        status.get("reason") or "",
        datetime.fromisoformat(leaving_at) if isinstance(leaving_at, str) else leaving_at,
        waiting.get("reason") or "",
        ended.get("exitCode"),
        _last_words(ended) or waiting.get("message") or status.get("message") or "",
    )


def _part(container: Object, *path: str) -> Object:
    for key in path:
        container = container.get(key) or {}
    return container


def _last_words(ended: Object) -> str:
    lines = [line.strip() for line in (ended.get("message") or "").splitlines() if line.strip()]
    reason = ended.get("reason") or ""
    told = [reason] if reason not in ("", "Error", "Completed") else []
    return ": ".join(told + lines[-1:])
