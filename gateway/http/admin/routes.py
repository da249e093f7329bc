"""Routes: which pool a served name leads to, for one project or for all."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter, Request
from pydantic import Field

from gateway.db import WriteSession
from gateway.errors import Conflict, InvalidValue, NotFound
from gateway.http.admin.common import AdminParts, After, Body, Json, Limit, Page, page_of, record, unix
from gateway.ids import PoolId, RouteId, TenantId
from gateway.pool.spec import ServedName
from gateway.routing.repository import COMPONENTS, RoutingRepository
from gateway.routing.target import RouteRow

__all__ = ["RouteRoutes", "route_facts", "route_json"]


class RouteBody(Body):
    served_model: ServedName
    pool_id: str
    sku: str = Field(min_length=1, max_length=200)
    project_id: str | None = None
    default_max_output: int = Field(default=4096, ge=1, le=1 << 20)
    published: bool = True


class RouteChange(Body):
    """The served name and whose it is stay what they are: another one is another route."""

    pool_id: str | None = None
    sku: str | None = Field(default=None, min_length=1, max_length=200)
    default_max_output: int | None = Field(default=None, ge=1, le=1 << 20)
    published: bool | None = None


class RouteRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._routing = RoutingRepository()

    def register(self, router: APIRouter) -> None:
        router.add_api_route("/routes", self.create, methods=["POST"])
        router.add_api_route("/routes", self.list, methods=["GET"])
        router.add_api_route("/routes/{route_id}", self.retrieve, methods=["GET"])
        router.add_api_route("/routes/{route_id}", self.update, methods=["POST"])
        router.add_api_route("/routes/{route_id}", self.update, methods=["PATCH"])
        router.add_api_route("/routes/{route_id}", self.delete, methods=["DELETE"])

    async def create(self, request: Request, body: RouteBody) -> Json:
        tenant_id = TenantId(body.project_id) if body.project_id is not None else None
        route = RouteRow(
            RouteId(self._p.ids.new("route")),
            tenant_id,
            body.served_model,
            PoolId(body.pool_id),
            body.sku,
            body.default_max_output,
            self._p.clock.now(),
            body.published,
        )
        async with self._p.database.write() as session:
            if not await self._routing.has_pool(session, route.pool_id):
                raise InvalidValue("There is no such pool.", "pool_id")
            if tenant_id is not None and not await self._routing.has_tenant(session, tenant_id):
                raise InvalidValue("There is no such project.", "project_id")
            if body.published:
                await self._require_prices(session, body.sku)
            if not await self._routing.insert_route(session, route):
                raise Conflict("There is a route of that name already.")
            resource = ("route", route.id)
            await record(
                self._p, session, request, "route.created", resource, tenant_id, {"after": route_facts(route)}
            )
        return route_json(route)

    async def retrieve(self, route_id: str) -> Json:
        async with self._p.database.read() as session:
            route = await self._routing.route_view(session, RouteId(route_id))
        if route is None:
            raise NotFound("No such route.")
        return route_json(route)

    async def update(self, request: Request, route_id: str, body: RouteChange) -> Json:
        """A route that is not published is seen by nobody; it needs no price yet. Requests under way go on."""
        async with self._p.database.write() as session:
            before = await self._routing.route(session, RouteId(route_id))
            if before is None:
                raise NotFound("No such route.")
            given = body.model_dump(exclude_none=True)
            route = replace(before, **given)
            if "pool_id" in given and not await self._routing.has_pool(session, route.pool_id):
                raise InvalidValue("There is no such pool.", "pool_id")
            if route.published and given:
                await self._require_prices(session, route.sku)
            if route != before:
                await self._routing.set_route(session, route)
                details = {"before": route_facts(before), "after": route_facts(route)}
                resource = ("route", route_id)
                await record(self._p, session, request, "route.updated", resource, route.tenant_id, details)
        return route_json(route)

    async def list(self, limit: Limit = 20, after: After = None) -> Page:
        async with self._p.database.read() as session:
            rows = await self._routing.routes(session, after, limit + 1)
        return page_of([route_json(row) for row in rows], limit)

    async def delete(self, request: Request, route_id: str) -> Json:
        async with self._p.database.write() as session:
            gone = await self._routing.delete_route(session, RouteId(route_id))
            if gone is None:
                raise NotFound("No such route.")
            resource = ("route", route_id)
            await record(
                self._p,
                session,
                request,
                "route.deleted",
                resource,
                gone.tenant_id,
                {"before": route_facts(gone)},
            )
        return {"object": "organization.route.deleted", "id": route_id, "deleted": True}

    async def _require_prices(self, session: WriteSession, sku: str) -> None:
        """All three prices are in force now. One that begins later would leave requests without a price till then;
        one that is in force never ends, so there can be no gap after it."""
        starts, now = await self._routing.price_starts(session, sku), self._p.clock.now()
        missing = [name for name in COMPONENTS if name not in starts or starts[name] > now]
        if missing:
            later = min((starts[name] for name in missing if name in starts), default=None)
            hint = f" Its first price begins at {later.isoformat()}." if later is not None else ""
            raise InvalidValue(f"The sku has no price in force for: {', '.join(missing)}.{hint}", "sku")


def route_facts(row: RouteRow) -> Json:
    """What the audit log keeps of it."""
    return {
        name: value for name, value in route_json(row).items() if name not in ("object", "id", "created_at")
    }


def route_json(row: RouteRow) -> Json:
    return {
        "object": "organization.route",
        "id": row.id,
        "project_id": row.tenant_id,
        "served_model": row.served_model,
        "pool_id": row.pool_id,
        "sku": row.sku,
        "default_max_output": row.default_max_output,
        "published": row.published,
        "created_at": unix(row.created_at),
    }
