"""Pools: the engines that should run. The supervisor makes it so; here their specification is written, and how far it is
can be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from fastapi import APIRouter, Request
from pydantic import Field

from gateway.errors import Conflict, InvalidValue, NotFound
from gateway.http.admin.common import AdminParts, After, Body, Json, Limit, Page, page_of, record, unix
from gateway.ids import PoolId, TenantId
from gateway.pool.plan import PoolView
from gateway.pool.repository import PoolRepository, ReplicaCondition
from gateway.pool.spec import EngineSpec
from gateway.routing.repository import RoutingRepository

__all__ = ["PoolRoutes"]


class PoolBody(Body):
    name: str = Field(min_length=1, max_length=100)
    spec: EngineSpec
    reserved_projects: list[str] = Field(default=[], max_length=1000)


class PoolStateBody(Body):
    desired_state: Literal["running", "stopped"]


class PoolRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._pools = PoolRepository()
        self._routing = RoutingRepository()

    def register(self, router: APIRouter) -> None:
        router.add_api_route("/pools", self.create, methods=["POST"])
        router.add_api_route("/pools", self.list, methods=["GET"])
        router.add_api_route("/pools/{pool_id}", self.retrieve, methods=["GET"])
        router.add_api_route("/pools/{pool_id}", self.update, methods=["POST"])

    async def create(self, request: Request, body: PoolBody) -> Json:
        pool_id = PoolId(self._p.ids.new("pool"))
        async with self._p.database.write() as session:
            for project in body.reserved_projects:
                if not await self._routing.has_tenant(session, TenantId(project)):
                    raise InvalidValue("There is no such project.", "reserved_projects")
            if not await self._pools.insert_pool(
                session, pool_id, body.name, body.spec, body.reserved_projects
            ):
                raise Conflict("There is a pool of that name already.")
            details = body.model_dump(mode="json")
            await record(self._p, session, request, "pool.created", ("pool", pool_id), None, details)
        return await self.retrieve(pool_id)

    async def list(self, limit: Limit = 20, after: After = None) -> Page:
        """Newest first. There are few pools, and their supervisors read all of them anyway."""
        async with self._p.database.read() as session:
            rows = await self._pools.pools(session)
            rows = sorted(rows, key=lambda row: row.id, reverse=True)
            shown = [row for row in rows if after is None or row.id < after][: limit + 1]
            replicas = await self._pools.conditions(session, [row.id for row in shown])
        return page_of([_pool(row, replicas) for row in shown], limit)

    async def retrieve(self, pool_id: str) -> Json:
        async with self._p.database.read() as session:
            rows = await self._pools.pools(session)
            replicas = await self._pools.conditions(session, [PoolId(pool_id)])
        for row in rows:
            if row.id == pool_id:
                return _pool(row, replicas)
        raise NotFound("No such pool.")

    async def update(self, request: Request, pool_id: str, body: PoolStateBody) -> Json:
        async with self._p.database.write() as session:
            if not await self._pools.set_desired_state(session, PoolId(pool_id), body.desired_state):
                raise NotFound("No such pool.")
            details = body.model_dump()
            await record(self._p, session, request, "pool.updated", ("pool", pool_id), None, details)
        return await self.retrieve(pool_id)


def _pool(view: PoolView, replicas: Sequence[ReplicaCondition]) -> Json:
    return {
        "object": "organization.pool",
        "id": view.id,
        "name": view.name,
        "spec": view.spec.model_dump(mode="json", exclude_defaults=True),
        "generation": view.generation,
        "desired_state": "running" if view.wanted else "stopped",
        "replicas": [_replica(replica) for replica in replicas if replica.pool_id == view.id],
    }


def _replica(condition: ReplicaCondition) -> Json:
    return {
        "object": "organization.pool.replica",
        "id": condition.id,
        "node": condition.node,
        "url": condition.url,
        "state": condition.state,
        "restarts": condition.restarts,
        "last_error": condition.last_error,
        "ready_at": unix(condition.ready_at),
    }
