"""A Kubernetes cluster as a supervisor meets it: an API server over real HTTP, which refuses what the real schemas refuse,
its controllers and kubelets, and engines in its pods, which answer under their pods' names.

It knows nothing of Tollway's manifests beyond what a cluster would do with them. Faults are asked for by `misbehave`.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web

from tests.deploy.objects import faults

Object = dict[str, Any]
NAMESPACE = "tollway"
TOKEN = "the-service-account"
KINDS = {
    "statefulsets": ("apps", "v1", "StatefulSet"),
    "leaderworkersets": ("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet"),
}
PAGE_MAX = 2
"""However many are asked for: lists have pages here."""


@dataclass(slots=True)
class Pod:
    """An object and the engine in it."""

    body: Object
    owner: str
    state: str = "ready"
    life: int = 0
    """Counts the container's starts."""
    waiting: Object | None = None
    ended: Object | None = None
    busy: bool = False
    """It has requests to finish before it goes."""

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    def epoch(self) -> str:
        return f"{self.body['metadata']['uid']}-{self.life}"


@dataclass(slots=True)
class Fault:
    """What the next request of that verb and resource gets instead of an answer."""

    verb: str
    resource: str
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    after: bool = False
    """The request is carried out all the same."""
    hang: bool = False


class Cluster:
    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.pods: dict[str, Pod] = {}
        self.calls: Counter[tuple[str, str, str]] = Counter()
        self.faults: list[Fault] = []
        self.starts_as = "ready"
        """What engines of new pods are: `starting` until a test says otherwise."""
        self.breaks_with: Object | None = None
        """How containers of new pods end at once, again and again."""
        self.node_is_dead = False
        """Its kubelet ends no pod."""
        self.drains: list[str] = []
        self.created: list[Object] = []
        self._uids = itertools.count(1)
        self._runner: web.AppRunner | None = None
        self._stopped = asyncio.Event()
        self.port = 0

    # -- the wire -----------------------------------------------------------------------------------

    async def start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        self._stopped.set()
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def misbehave(self, verb: str, resource: str, status: int = 500, times: int = 1, **how: Any) -> None:
        self.faults += [Fault(verb, resource, status, **how) for _ in range(times)]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        host = request.host.rpartition(":")[0]
        return await (self._engine(request, host) if host.endswith(".svc") else self._api(request))

    async def _engine(self, request: web.Request, host: str) -> web.Response:
        """As the name resolves only while the pod runs, so does the engine only answer then."""
        pod = self.pods.get(host.split(".")[0])
        if pod is None or pod.waiting or pod.ended:
            return web.Response(status=502)
        if request.path == "/v1/models":
            ready = pod.state == "ready"
            return web.json_response({"data": []}) if ready else web.Response(status=503)
        if request.path != "/internal/status":
            return web.Response(status=404)
        told = {"state": pod.state, "epoch": pod.epoch(), "running": 1, "waiting": 0}
        return web.json_response(told)

    async def _api(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return _status(401, "Unauthorized")
        parts = request.path.strip("/").split("/")
        group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
        assert rest[:2] == ["namespaces", NAMESPACE], request.path
        resource, name = rest[2], rest[3] if len(rest) > 3 else ""
        listing = request.method == "GET" and not name
        verb = (
            "list"
            if listing
            else {"GET": "get", "POST": "create"}.get(request.method, request.method.lower())
        )
        self.calls[verb, group, resource] += 1
        body = await request.json() if request.can_read_body else {}
        fault = next((one for one in self.faults if (one.verb, one.resource) == (verb, resource)), None)
        if fault is not None:
            self.faults.remove(fault)
            if fault.after:
                self._perform(request, verb, resource, name, body)
            if fault.hang:
                await self._stopped.wait()
            return _status(fault.status, "Fault", headers=fault.headers)
        return self._perform(request, verb, resource, name, body)

    def _perform(
        self, request: web.Request, verb: str, resource: str, name: str, body: Object
    ) -> web.Response:
        match verb:
            case "list":
                return self._list(resource, request.query)
            case "create":
                return self._create(resource, body)
            case "patch":
                assert request.content_type == "application/merge-patch+json"
                return self._patch(resource, name, body)
            case "delete":
                return self._delete(resource, name, body)
        return _status(405, "MethodNotAllowed")

    # -- objects ------------------------------------------------------------------------------------

    def _list(self, resource: str, query: Any) -> web.Response:
        found = (
            [self._shown(pod) for pod in self.pods.values()]
            if resource == "pods"
            else [one for (kind, _), one in self.objects.items() if kind == resource]
        )
        wanted = dict(pair.split("=", 1) for pair in query["labelSelector"].split(","))
        found = [one for one in found if wanted.items() <= one["metadata"]["labels"].items()]
        first = int(query.get("continue", 0))
        size = min(int(query["limit"]), PAGE_MAX)
        more = str(first + size) if first + size < len(found) else ""
        meta = {"resourceVersion": "1", "continue": more}
        kind = "PodList" if resource == "pods" else f"{KINDS[resource][2]}List"
        version = "v1" if resource == "pods" else "/".join(KINDS[resource][:2])
        answer = {"apiVersion": version, "kind": kind, "metadata": meta, "items": found[first : first + size]}
        return web.json_response(answer)

    def _create(self, resource: str, body: Object) -> web.Response:
        group, version, kind = KINDS[resource]
        assert (body["apiVersion"], body["kind"]) == (f"{group}/{version}", kind)
        wrong = faults(body)
        if wrong:
            return _status(422, "Invalid", message="; ".join(wrong))
        key = (resource, body["metadata"]["name"])
        if key in self.objects:
            return _status(409, "AlreadyExists")
        self.created.append(copy.deepcopy(body))
        body["metadata"] |= {"uid": f"uid-{next(self._uids)}", "namespace": NAMESPACE, **_now()}
        self.objects[key] = body
        self._control()
        return web.json_response(body, status=201)

    def _patch(self, resource: str, name: str, body: Object) -> web.Response:
        found = self.objects.get((resource, name))
        if found is None:
            return _status(404, "NotFound")
        if body["metadata"].get("uid") != found["metadata"]["uid"]:
            return _status(409, "Conflict")
        found["spec"] |= body["spec"]
        wrong = faults({**found, "metadata": _without(found["metadata"], "uid", "creationTimestamp")})
        assert not wrong, wrong
        self._control()
        return web.json_response(found)

    def _delete(self, resource: str, name: str, options: Object) -> web.Response:
        uid = options["preconditions"]["uid"]
        if resource == "pods":
            pod = self.pods.get(name)
            if pod is None:
                return _status(404, "NotFound")
            if pod.body["metadata"]["uid"] != uid:
                return _status(409, "Conflict")
            self._end(pod, options["gracePeriodSeconds"])
            self._control()
            return web.json_response(self._shown(pod))
        found = self.objects.get((resource, name))
        if found is None:
            return _status(404, "NotFound")
        if found["metadata"]["uid"] != uid:
            return _status(409, "Conflict")
        assert options["propagationPolicy"] == "Background"
        del self.objects[resource, name]
        self._control()
        return web.json_response(_SUCCESS)

    # -- controllers and kubelets -------------------------------------------------------------------

    def _control(self) -> None:
        """What an object wants is there, and what nobody wants is told to go."""
        wanted = {name: one for (_, name), one in self.objects.items() if one["spec"].get("replicas", 1)}
        for pod in list(self.pods.values()):
            if pod.owner not in wanted and "deletionTimestamp" not in pod.body["metadata"]:
                grace_s = pod.body["spec"]["terminationGracePeriodSeconds"]
                self._end(pod, grace_s)
        for name, one in wanted.items():
            for pod_name, template in _pods_of(name, one):
                if pod_name not in self.pods:
                    self._run(pod_name, name, template)

    def _run(self, name: str, owner: str, template: Object) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**copy.deepcopy(template["metadata"]), "name": name},
            "spec": copy.deepcopy(template["spec"]),
        }
        wrong = faults(body)
        assert not wrong, wrong
        body["metadata"] |= {"uid": f"uid-{next(self._uids)}", "namespace": NAMESPACE, **_now()}
        self.pods[name] = pod = Pod(body, owner, self.starts_as)
        if self.breaks_with is not None:
            self.crash(pod, **self.breaks_with)

    def _end(self, pod: Pod, grace_s: int) -> None:
        """SIGTERM, on which it drains; gone when it has, or when its time is over."""
        meta = pod.body["metadata"]
        if "deletionTimestamp" not in meta:
            due = datetime.now(UTC) + timedelta(seconds=grace_s)
            meta["deletionTimestamp"] = due.isoformat(timespec="seconds").replace("+00:00", "Z")
            self.drains.append(pod.name)
            pod.state = "draining"
        if grace_s == 0 or (not self.node_is_dead and (grace_s <= 1 or not pod.busy)):
            del self.pods[pod.name]

    def finish(self, pod: Pod) -> None:
        """The last request of a draining engine ends."""
        pod.busy = False
        if "deletionTimestamp" in pod.body["metadata"]:
            del self.pods[pod.name]
            self._control()

    def crash(
        self, pod: Pod, code: int, message: str = "", reason: str = "Error", loops: bool = True
    ) -> None:
        """Its container ended; its kubelet starts it again, at once or, when it `loops`, after a while."""
        pod.ended = {"exitCode": code, "message": message, "reason": reason} if loops else None
        pod.waiting = {"reason": "CrashLoopBackOff", "message": "back-off"} if loops else None
        pod.life += 1

    def evict(self, pod: Pod) -> None:
        """Its node wants it no more; its controller makes another."""
        del self.pods[pod.name]
        self._control()

    def _shown(self, pod: Pod) -> Object:
        state = {"waiting": pod.waiting} if pod.waiting else {"running": _now("startedAt")}
        status: Object = {
            "name": "engine",
            "image": "image",
            "imageID": "",
            "ready": pod.state == "ready",
            "restartCount": pod.life,
            "state": state,
        }
        if pod.ended:
            status["lastState"] = {"terminated": pod.ended}
        return {**pod.body, "status": {"phase": "Running", "containerStatuses": [status]}}


_SUCCESS = {"apiVersion": "v1", "kind": "Status", "status": "Success"}


def _pods_of(name: str, one: Object) -> list[tuple[str, Object]]:
    """Leader first, as the controller of groups names them."""
    spec = one["spec"]
    if one["kind"] == "StatefulSet":
        return [(f"{name}-0", spec["template"])]
    group = spec["leaderWorkerTemplate"]
    workers = range(1, group["size"])
    leader = [(f"{name}-0", group["leaderTemplate"])]
    return leader + [(f"{name}-0-{index}", group["workerTemplate"]) for index in workers]


def _without(meta: Object, *names: str) -> Object:
    return {key: value for key, value in meta.items() if key not in names}


def _now(name: str = "creationTimestamp") -> Object:
    return {name: datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")}


def _status(code: int, reason: str, message: str = "", headers: dict[str, str] | None = None) -> web.Response:
    body = {"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": reason, "code": code}
    text = json.dumps(body | {"message": message or reason})
    return web.Response(status=code, text=text, content_type="application/json", headers=headers)
