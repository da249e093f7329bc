"""Pools: the engines that should run, and how requests are spread over them. The supervisor makes it so; here it is
written what it shall be, and how far it is can be read.

A change of the specification replaces the replicas one by one; a change of their number, of the name, of who may use
the pool or of its traffic policy replaces none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import AfterValidator, Field, SecretStr, ValidationError

from gateway.db import WriteSession
from gateway.errors import Conflict, InvalidValue, NotFound
from gateway.http.admin.common import AdminParts, After, Body, Json, Limit, Name, Page, page_of, record, unix
from gateway.ids import PoolId, ReplicaId
from gateway.pool.addresses import unsafe_url
from gateway.pool.nodes import NodeState, node_states
from gateway.pool.repository import PoolRepository, ReplicaCondition
from gateway.pool.sizing import wanted_replicas
from gateway.pool.spec import NOT_STARTED_WITH, EngineSpec
from gateway.pool.traffic import DEFAULT_TRAFFIC, TrafficPolicy
from gateway.pool.views import PoolView
from gateway.routing.repository import RoutingRepository

__all__ = ["PoolRoutes"]

NAME_MAX = 100


def _sendable(key: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[\x21-\x7e]+", key.get_secret_value()):
        raise ValueError("printable ASCII without spaces")
    return key


EngineKey = Annotated[SecretStr, Field(min_length=1, max_length=4096), AfterValidator(_sendable)]


class PoolBody(Body):
    name: Name = Field(min_length=1, max_length=NAME_MAX)
    spec: EngineSpec
    reserved_projects: list[str] = Field(default=[], max_length=1000)
    traffic: TrafficPolicy = DEFAULT_TRAFFIC
    api_key: EngineKey | None = None
    """What an external pool's engines are called with. It is kept sealed and never shown."""


class PoolChange(Body):
    """What is not given stays. `spec` is given whole, `traffic` in part: a time of null is the gateway's setting again.
    The numbers of replicas can be given by themselves."""

    name: Name | None = Field(default=None, min_length=1, max_length=NAME_MAX)
    desired_state: Literal["running", "stopped"] | None = None
    spec: EngineSpec | None = None
    min_replicas: int | None = Field(default=None, ge=0, le=256)
    max_replicas: int | None = Field(default=None, ge=1, le=256)
    reserved_projects: list[str] | None = Field(default=None, max_length=1000)
    traffic: TrafficPolicy | None = None
    api_key: EngineKey | None = None
    """Null takes it away. Other addresses need it again."""


class PoolRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._pools = PoolRepository()
        self._routing = RoutingRepository()

    def register(self, router: APIRouter) -> None:
        one = "/pools/{pool_id}"
        router.add_api_route("/pools", self.create, methods=["POST"])
        router.add_api_route("/pools", self.list, methods=["GET"])
        router.add_api_route(one, self.retrieve, methods=["GET"])
        router.add_api_route(one, self.update, methods=["POST"])
        router.add_api_route(one, self.update, methods=["PATCH"])
        router.add_api_route(one, self.delete, methods=["DELETE"])
        router.add_api_route("/replicas", self.list_replicas, methods=["GET"])
        router.add_api_route("/replicas/{replica_id}", self.retrieve_replica, methods=["GET"])

    async def create(self, request: Request, body: PoolBody) -> Json:
        _check_urls(body.spec)
        pool_id = PoolId(self._p.ids.new("pool"))
        sealed = self._sealed(pool_id, body.spec, body.api_key)
        pool = PoolView(pool_id, body.name, body.spec, 1, True, body.traffic, sealed)
        async with self._p.database.write() as session:
            await self._require_projects(session, body.reserved_projects)
            if not await self._pools.insert_pool(
                session, pool.id, pool.name, pool.spec, body.reserved_projects, pool.traffic, sealed
            ):
                raise Conflict("There is a pool of that name already.")
            details = {"after": _facts(pool, body.reserved_projects)}
            await record(self._p, session, request, "pool.created", ("pool", pool.id), None, details)
        return await self.retrieve(pool.id)

    async def list(self, limit: Limit = 20, after: After = None) -> Page:
        """Newest first."""
        async with self._p.database.read() as session:
            rows = await self._pools.pool_page(session, after, limit + 1)
            ids = [pool.id for pool, _ in rows]
            replicas = await self._pools.conditions(session, ids)
            nodes = await node_states(session, ids)
        return page_of([self._pool(pool, reserved, replicas, nodes) for pool, reserved in rows], limit)

    async def retrieve(self, pool_id: str) -> Json:
        async with self._p.database.read() as session:
            found = await self._pools.pool(session, PoolId(pool_id))
            if found is None:
                raise NotFound("No such pool.")
            replicas = await self._pools.conditions(session, [PoolId(pool_id)])
            nodes = await node_states(session, [PoolId(pool_id)])
        return self._pool(*found, replicas, nodes)

    async def update(self, request: Request, pool_id: str, body: PoolChange) -> Json:
        _check_urls(body.spec)
        async with self._p.database.write() as session:
            found = await self._pools.pool(session, PoolId(pool_id), lock=True)
            if found is None:
                raise NotFound("No such pool.")
            before, reserved = found
            after = self._with_key(_changed(before, body), before, body)
            wanted = (
                reserved if body.reserved_projects is None else tuple(sorted(set(body.reserved_projects)))
            )
            await self._require_projects(session, [one for one in wanted if one not in reserved])
            if after.name != before.name and await self._pools.has_name(session, after.name):
                raise Conflict("There is a pool of that name already.")
            if (after, wanted) != (before, reserved):
                await self._pools.set_pool(session, after, wanted)
                details: Json = {"before": _facts(before, reserved), "after": _facts(after, wanted)}
                if after.sealed_api_key not in (None, before.sealed_api_key):
                    details["after"]["key_was_set"] = True
                await record(self._p, session, request, "pool.updated", ("pool", pool_id), None, details)
        return await self.retrieve(pool_id)

    async def delete(self, request: Request, pool_id: str) -> Json:
        """Once no route leads to it. What its replicas have in flight is finished."""
        async with self._p.database.write() as session:
            found = await self._pools.pool(session, PoolId(pool_id), lock=True)
            if found is None:
                raise NotFound("No such pool.")
            if await self._routing.leads_to(session, PoolId(pool_id)):
                raise Conflict("A route leads to the pool: delete it, or lead it elsewhere first.")
            await self._pools.delete_pool(session, PoolId(pool_id))
            details = {"before": _facts(*found)}
            await record(self._p, session, request, "pool.deleted", ("pool", pool_id), None, details)
        return {"object": "organization.pool.deleted", "id": pool_id, "deleted": True}

    async def list_replicas(
        self,
        pool_id: Annotated[str | None, Query(max_length=200)] = None,
        limit: Limit = 20,
        after: After = None,
    ) -> Page:
        """Newest first, those that have stopped for good too."""
        async with self._p.database.read() as session:
            rows = await self._pools.replica_page(session, pool_id, after, limit + 1)
        return page_of([self._replica(row) for row in rows], limit)

    async def retrieve_replica(self, replica_id: str) -> Json:
        async with self._p.database.read() as session:
            found = await self._pools.replica(session, replica_id)
        if found is None:
            raise NotFound("No such replica.")
        return self._replica(found)

    def _pool(
        self,
        pool: PoolView,
        reserved: Sequence[str],
        replicas: Sequence[ReplicaCondition],
        nodes: Sequence[NodeState],
    ) -> Json:
        return {
            "object": "organization.pool",
            "id": pool.id,
            **_facts(pool, reserved),
            "generation": pool.generation,
            "nodes": [_node(pool, node) for node in nodes if node.pool_id == pool.id],
            "replicas": [self._replica(replica) for replica in replicas if replica.pool_id == pool.id],
        }

    def _replica(self, condition: ReplicaCondition) -> Json:
        """`load` is what it last said to the gateway that answers; null if that has not heard from it."""
        load = self._p.load_of(ReplicaId(condition.id)) if condition.state in ("ready", "draining") else None
        return {
            "object": "organization.pool.replica",
            "id": condition.id,
            "pool_id": condition.pool_id,
            "node": condition.node,
            "url": condition.url,
            "gpus": [*condition.gpus],
            "devices": [*condition.devices],
            "generation": condition.generation,
            "state": condition.state,
            "restarts": condition.restarts,
            "last_error": condition.last_error,
            "created_at": unix(condition.created_at),
            "ready_at": unix(condition.ready_at),
            "load": {"running": load.running, "waiting": load.waiting, "kv_usage": load.kv_usage}
            if load is not None
            else None,
        }

    def _with_key(self, after: PoolView, before: PoolView, body: PoolChange) -> PoolView:
        """Who may not read the key may not have it sent elsewhere either: new addresses need it again."""
        if "api_key" in body.model_fields_set:
            return replace(after, sealed_api_key=self._sealed(after.id, after.spec, body.api_key))
        if before.sealed_api_key is not None and (after.spec.kind, after.spec.urls) != (
            before.spec.kind,
            before.spec.urls,
        ):
            raise InvalidValue(
                "The engines' addresses change: give the pool's API key again, or null for none.", "api_key"
            )
        return after

    def _sealed(self, pool_id: PoolId, spec: EngineSpec, key: SecretStr | None) -> bytes | None:
        if key is None:
            return None
        if spec.kind != "external":
            raise InvalidValue("Only an external engine has a key of its own.", "api_key")
        return self._p.pool_access.seal(pool_id, key.get_secret_value())

    async def _require_projects(self, session: WriteSession, project_ids: Sequence[str]) -> None:
        known = self._p.people.repository.known_projects
        if project_ids and set(project_ids) - await known(session, project_ids):
            raise InvalidValue("There is no such project.", "reserved_projects")


def _check_urls(spec: EngineSpec | None) -> None:
    """Here and not in the specification: one that is stored stays readable when this rule changes."""
    wrong = unsafe_url(spec.urls) if spec is not None else None
    if wrong is not None:
        raise InvalidValue(f"Invalid value for 'spec': {wrong}.", "spec")


def _changed(pool: PoolView, body: PoolChange) -> PoolView:
    spec = body.spec or pool.spec
    numbers = body.model_dump(include={"min_replicas", "max_replicas"}, exclude_none=True)
    if numbers:
        spec = _spec_of(spec.model_dump() | numbers)
    # What an engine is started with decides; how many of them there are does not.
    is_same = _as_started(spec) == _as_started(pool.spec)
    traffic = pool.traffic
    if body.traffic is not None:
        traffic = traffic.model_copy(update=body.traffic.model_dump(exclude_unset=True))
    return replace(
        pool,
        name=body.name or pool.name,
        spec=spec,
        generation=pool.generation if is_same else pool.generation + 1,
        wanted=pool.wanted if body.desired_state is None else body.desired_state == "running",
        traffic=traffic,
    )


def _spec_of(values: Json) -> EngineSpec:
    try:
        return EngineSpec.model_validate(values)
    except ValidationError as error:
        raise InvalidValue(error.errors()[0]["msg"], "min_replicas") from None


def _as_started(spec: EngineSpec) -> Json:
    return spec.model_dump(exclude=set(NOT_STARTED_WITH))


def _node(pool: PoolView, state: NodeState) -> Json:
    """`wanted_replicas` is what the node's supervisor keeps; `replicas` what its autoscaler chose last, whatever the
    specification says by now."""
    return {
        "node": state.node,
        "phase": state.phase,
        "reason": state.reason,
        "since": unix(state.since),
        "wanted_replicas": wanted_replicas(replace(pool, scaled_to=state.replicas)),
        "replicas": state.replicas,
        "scaled_at": unix(state.scaled_at),
        "scaled_for": state.scaled_for,
    }


def _facts(pool: PoolView, reserved: Sequence[str]) -> Json:
    """What is asked of it; the audit log keeps this."""
    return {
        "name": pool.name,
        "spec": pool.spec.model_dump(mode="json", exclude_defaults=True),
        "desired_state": "running" if pool.wanted else "stopped",
        "reserved_projects": [*reserved],
        "traffic": pool.traffic.model_dump(mode="json"),
        "has_api_key": pool.sealed_api_key is not None,
    }
