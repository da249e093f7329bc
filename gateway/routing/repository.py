"""All SQL of routing. Readings are whole: the catalogue keeps them in memory until the feed says otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import delete, exists, select
from sqlalchemy.dialects.postgresql import insert

from gateway.db import ReadSession, WriteSession
from gateway.ids import PoolId, ReplicaId, RouteId, TenantId
from gateway.pool.models import Pool, Replica
from gateway.routing.choose import POLICIES
from gateway.routing.models import Price, Route
from gateway.routing.target import (
    Permission,
    PoolRow,
    PriceRow,
    ReplicaRow,
    RouteRow,
    RoutingRows,
)
from gateway.tenancy.models import ModelPermission, Tenant

__all__ = ["RoutingRepository"]

DEFAULT_POLICY = "least_loaded"
COMPONENTS = ("input", "cached_input", "output")


class RoutingRepository:
    async def rows(self, session: ReadSession) -> RoutingRows:
        pools = {PoolId(row.id): _pool(row) for row in await session.scalars(select(Pool))}
        routes = await session.scalars(select(Route).where(Route.published))
        prices = await session.scalars(select(Price).order_by(Price.valid_from))
        replicas = await session.scalars(
            select(Replica).where(Replica.state == "ready", Replica.url.is_not(None)).order_by(Replica.id)
        )
        return RoutingRows(
            [_route(row) for row in routes],
            [
                PriceRow(row.id, row.sku, row.component, row.valid_from, row.nanousd_per_token)
                for row in prices
            ],
            pools,
            # A pool may have been made between two of these queries; the feed brings its replicas next.
            [_replica(row, pools[PoolId(row.pool_id)]) for row in replicas if PoolId(row.pool_id) in pools],
        )

    async def permissions(self, session: ReadSession) -> Mapping[TenantId, Permission]:
        return {
            TenantId(row.tenant_id): Permission(
                "allow_list" if row.mode == "allow_list" else "deny_list", frozenset(row.model_ids)
            )
            for row in await session.scalars(select(ModelPermission))
        }

    async def tenants(self, session: ReadSession) -> list[TenantId]:
        """For the metrics' labels."""
        ids = await session.scalars(select(Tenant.id).where(Tenant.status == "active"))
        return [TenantId(tenant_id) for tenant_id in ids]

    # What the admin API does.

    async def routes(self, session: ReadSession, after: str | None, limit: int) -> list[RouteRow]:
        query = select(Route).order_by(Route.id.desc()).limit(limit)
        if after is not None:
            query = query.where(Route.id < after)
        return [_route(row) for row in await session.scalars(query)]

    async def insert_route(self, session: WriteSession, route: RouteRow) -> bool:
        """False if the tenant (or everybody) has a route of that name already."""
        statement = insert(Route).values(
            id=route.id,
            tenant_id=route.tenant_id,
            served_model=route.served_model,
            pool_id=route.pool_id,
            sku=route.sku,
            default_max_output=route.default_max_output,
            created_at=route.created_at,
        )
        written = await session.execute(statement.on_conflict_do_nothing().returning(Route.id))
        return written.first() is not None

    async def delete_route(self, session: WriteSession, route_id: RouteId) -> RouteRow | None:
        gone = await session.scalars(delete(Route).where(Route.id == route_id).returning(Route))
        row = gone.one_or_none()
        return _route(row) if row is not None else None

    async def has_pool(self, session: WriteSession, pool_id: PoolId) -> bool:
        return bool(await session.scalar(select(exists().where(Pool.id == pool_id))))

    async def has_tenant(self, session: WriteSession, tenant_id: TenantId) -> bool:
        query = select(exists().where(Tenant.id == tenant_id, Tenant.status == "active"))
        return bool(await session.scalar(query))

    async def priced_components(self, session: WriteSession, sku: str) -> set[str]:
        return set(await session.scalars(select(Price.component).where(Price.sku == sku)))

    async def prices(self, session: ReadSession, sku: str | None) -> list[PriceRow]:
        query = select(Price).order_by(Price.sku, Price.component, Price.valid_from)
        if sku is not None:
            query = query.where(Price.sku == sku)
        return [_price(row) for row in await session.scalars(query)]

    async def insert_prices(
        self, session: WriteSession, sku: str, valid_from: datetime, nanousd_per_token: Mapping[str, Decimal]
    ) -> Sequence[PriceRow]:
        """One row per component; empty if one of them exists with the same `valid_from`."""
        rows = [
            {"sku": sku, "component": name, "valid_from": valid_from, "nanousd_per_token": value}
            for name, value in nanousd_per_token.items()
        ]
        taken = select(exists().where(Price.sku == sku, Price.valid_from == valid_from))
        if await session.scalar(taken):
            return []
        written = await session.scalars(insert(Price).values(rows).returning(Price))
        return [_price(row) for row in written]


def _price(row: Price) -> PriceRow:
    return PriceRow(row.id, row.sku, row.component, row.valid_from, row.nanousd_per_token)


def _route(row: Route) -> RouteRow:
    return RouteRow(
        RouteId(row.id),
        TenantId(row.tenant_id) if row.tenant_id is not None else None,
        row.served_model,
        PoolId(row.pool_id),
        row.sku,
        row.default_max_output,
        row.created_at,
    )


def _pool(row: Pool) -> PoolRow:
    """The specification is the pool's own; here it only has to name the model and the way to speak to it."""
    spec: dict[str, Any] = row.spec
    names = spec.get("served_names") or [row.name]
    policy = spec.get("routing_policy")
    return PoolRow(
        PoolId(row.id),
        str(spec.get("kind", "tollway")),
        str(names[0]),
        str(policy) if policy in POLICIES else DEFAULT_POLICY,
        frozenset(TenantId(tenant) for tenant in row.reserved_tenants),
    )


def _replica(row: Replica, pool: PoolRow) -> ReplicaRow:
    assert row.url is not None, "selected by it"
    return ReplicaRow(ReplicaId(row.id), pool.id, row.url.rstrip("/"), row.epoch, pool.engine_kind)
