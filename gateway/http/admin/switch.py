"""Leading served names from one pool to another, and back: in one transaction, and only to engines that are ready.

Both pools run meanwhile. Requests under way end where they began; the next ones go to the new pool as soon as a gateway
has heard of it, within a second. Who may use the names, and what they cost, stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fastapi import APIRouter, Request
from pydantic import Field

from gateway.db import WriteSession
from gateway.errors import Conflict, InvalidValue, NotFound
from gateway.http.admin.common import AdminParts, Body, Page, page_of, record
from gateway.http.admin.routes import route_facts, route_json
from gateway.ids import PoolId
from gateway.pool.repository import PoolRepository
from gateway.pool.sizing import wanted_replicas
from gateway.pool.spec import ServedName
from gateway.pool.views import PoolView
from gateway.routing.repository import RoutingRepository
from gateway.routing.target import RouteRow

__all__ = ["SwitchRoutes"]

SWITCHED_MAX = 1000


class SwitchBody(Body):
    to_pool_id: str = Field(max_length=200)
    served_model: ServedName | None = None
    """One name; all that lead to the pool if it is not given."""


class SwitchRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._pools = PoolRepository()
        self._routing = RoutingRepository()

    def register(self, router: APIRouter) -> None:
        router.add_api_route("/pools/{pool_id}/switch", self.switch, methods=["POST"])

    async def switch(self, request: Request, pool_id: str, body: SwitchBody) -> Page:
        """The routes that lead to the other pool now, everybody's and the projects' own."""
        if body.to_pool_id == pool_id:
            raise InvalidValue("That is the same pool.", "to_pool_id")
        async with self._p.database.write() as session:
            locked = {
                one: await self._pools.pool(session, PoolId(one), lock=True)
                for one in sorted((pool_id, body.to_pool_id))  # in one order, whichever way it goes
            }
            here, there = locked[pool_id], locked[body.to_pool_id]
            if here is None:
                raise NotFound("No such pool.")
            if there is None:
                raise InvalidValue("There is no such pool.", "to_pool_id")
            routes = await self._routing.leading(session, PoolId(pool_id), body.served_model, SWITCHED_MAX)
            if not routes:
                raise Conflict("No such name leads to the pool.")
            await self._require_ready(session, there[0])
            _require_open(routes, here[1], there[1])
            moved = [replace(route, pool_id=PoolId(body.to_pool_id)) for route in routes]
            for before, after in zip(routes, moved, strict=True):
                await self._routing.set_route(session, after)
                details = {"before": route_facts(before), "after": route_facts(after)}
                resource = ("route", after.id)
                await record(self._p, session, request, "route.updated", resource, after.tenant_id, details)
        return page_of([route_json(route) for route in moved], len(moved))

    async def _require_ready(self, session: WriteSession, pool: PoolView) -> None:
        """As many replicas of its newest specification as are wanted at least."""
        replicas = await self._pools.conditions(session, [pool.id])
        ready = sum(one.state == "ready" and one.generation == pool.generation for one in replicas)
        if not pool.wanted or ready < max(wanted_replicas(pool), 1):
            raise Conflict(f"The other pool is not ready: {ready} of {wanted_replicas(pool)} replicas are.")


def _require_open(routes: Sequence[RouteRow], here: Sequence[str], there: Sequence[str]) -> None:
    """Nobody who may use a name loses it."""
    if not there or (here and set(here) <= set(there)):
        return
    if any(route.tenant_id is None or route.tenant_id not in there for route in routes):
        raise Conflict("The other pool is reserved, and not to everybody who uses the name.")
