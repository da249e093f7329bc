"""All SQL of routing. Readings are whole: the catalogue keeps them in memory until the feed says otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import delete, exists, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import aliased

from gateway.db import ReadSession, WriteSession
from gateway.ids import PoolId, ReplicaId, RouteId, TenantId
from gateway.pool.access import PoolAccess
from gateway.pool.models import Pool, Replica
from gateway.routing.models import Price, Route
from gateway.routing.target import (
    Permission,
    PoolRow,
    PoolTimes,
    PriceFilter,
    PriceRow,
    ReplicaRow,
    RouteRow,
    RoutingRows,
)
from gateway.tenancy.models import ModelPermission, Tenant

__all__ = ["BATCH_COMPONENTS", "COMPONENTS", "RoutingRepository"]

COMPONENTS = ("input", "cached_input", "output")
BATCH_COMPONENTS = ("batch_input", "batch_cached_input", "batch_output")


class RoutingRepository:
    async def rows(self, session: ReadSession, access: PoolAccess | None = None) -> RoutingRows:
        """With `access` the pools' secrets are opened."""
        pools = {PoolId(row.id): _pool(row, access) for row in await session.scalars(select(Pool))}
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

    async def visible_names(self, session: ReadSession | WriteSession, tenant_id: TenantId) -> list[str]:
        """The served names that the tenant may use, whether they have a price and a replica now or not."""
        query = (
            select(Route.served_model, Route.tenant_id, Pool.reserved_tenants)
            .join(Pool, Pool.id == Route.pool_id)
            .where(Route.published, or_(Route.tenant_id.is_(None), Route.tenant_id == tenant_id))
            .order_by(Route.tenant_id.nulls_first())
        )
        permission = await session.get(ModelPermission, tenant_id)
        listed = set(permission.model_ids) if permission is not None else set()
        is_deny = permission is None or permission.mode == "deny_list"
        reserved = {name: tenants for name, _, tenants in await session.execute(query)}  # its own route wins
        return [
            name
            for name, tenants in reserved.items()
            if (name in listed) != is_deny and (not tenants or tenant_id in tenants)
        ]

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
            published=route.published,
        )
        written = await session.execute(statement.on_conflict_do_nothing().returning(Route.id))
        return written.first() is not None

    async def delete_route(self, session: WriteSession, route_id: RouteId) -> RouteRow | None:
        gone = await session.scalars(delete(Route).where(Route.id == route_id).returning(Route))
        row = gone.one_or_none()
        return _route(row) if row is not None else None

    async def route(self, session: WriteSession, route_id: RouteId) -> RouteRow | None:
        """For a change: the row is locked until the transaction ends."""
        row = await session.scalar(select(Route).where(Route.id == route_id).with_for_update())
        return _route(row) if row is not None else None

    async def leading(
        self, session: WriteSession, pool_id: PoolId, served_model: str | None, limit: int
    ) -> list[RouteRow]:
        """For a change: those that lead to the pool, or those of one name; locked until the transaction ends."""
        query = select(Route).where(Route.pool_id == pool_id)
        if served_model is not None:
            query = query.where(Route.served_model == served_model)
        rows = await session.scalars(query.order_by(Route.id).limit(limit).with_for_update())
        return [_route(row) for row in rows]

    async def route_view(self, session: ReadSession, route_id: RouteId) -> RouteRow | None:
        row = await session.get(Route, route_id)
        return _route(row) if row is not None else None

    async def set_route(self, session: WriteSession, route: RouteRow) -> None:
        """Name and tenant stay."""
        await session.execute(
            update(Route)
            .where(Route.id == route.id)
            .values(
                pool_id=route.pool_id,
                sku=route.sku,
                default_max_output=route.default_max_output,
                published=route.published,
                updated_at=func.now(),
            )
        )

    async def has_pool(self, session: WriteSession, pool_id: PoolId) -> bool:
        """Held against deletion until the transaction ends."""
        query = select(Pool.id).where(Pool.id == pool_id, Pool.deleted_at.is_(None))
        return await session.scalar(query.with_for_update(read=True, key_share=True)) is not None

    async def leads_to(self, session: WriteSession, pool_id: PoolId) -> bool:
        """Whether a route does, published or not."""
        return bool(await session.scalar(select(exists().where(Route.pool_id == pool_id))))

    async def has_tenant(self, session: WriteSession, tenant_id: TenantId) -> bool:
        query = select(exists().where(Tenant.id == tenant_id, Tenant.status == "active"))
        return bool(await session.scalar(query))

    async def price_starts(self, session: WriteSession, sku: str) -> dict[str, datetime]:
        """From when on each component of the sku has had a price; it has had one ever since."""
        query = select(Price.component, func.min(Price.valid_from).label("valid_from")).where(
            Price.sku == sku
        )
        rows = await session.execute(query.group_by(Price.component))
        return {row.component: row.valid_from for row in rows}

    async def prices(
        self, session: ReadSession, wanted: PriceFilter, before: int | None, limit: int
    ) -> list[PriceRow]:
        """Every version there has been, the one written last first."""
        until = func.lead(Price.valid_from).over(
            partition_by=(Price.sku, Price.component), order_by=Price.valid_from
        )
        versions = select(Price, until.label("valid_until"))
        if wanted.sku is not None:
            versions = versions.where(Price.sku == wanted.sku)
        if wanted.component is not None:
            versions = versions.where(Price.component == wanted.component)
        history = versions.subquery()
        query = select(aliased(Price, history), history.c.valid_until).order_by(history.c.id.desc())
        if wanted.at is not None:
            is_open = or_(history.c.valid_until.is_(None), history.c.valid_until > wanted.at)
            query = query.where(history.c.valid_from <= wanted.at, is_open)
        if before is not None:
            query = query.where(history.c.id < before)
        return [_price(row, until) for row, until in await session.execute(query.limit(limit))]

    async def insert_prices(
        self, session: WriteSession, sku: str, valid_from: datetime, nanousd_per_token: Mapping[str, Decimal]
    ) -> Sequence[PriceRow]:
        """One row per component; fewer if one of them exists with the same `valid_from`: then the caller gives up
        its transaction."""
        rows = [
            {"sku": sku, "component": name, "valid_from": valid_from, "nanousd_per_token": value}
            for name, value in nanousd_per_token.items()
        ]
        statement = insert(Price).values(rows).on_conflict_do_nothing().returning(Price)
        written = await session.scalars(statement)
        return [_price(row) for row in written]


def _price(row: Price, valid_until: datetime | None = None) -> PriceRow:
    return PriceRow(row.id, row.sku, row.component, row.valid_from, row.nanousd_per_token, valid_until)


def _route(row: Route) -> RouteRow:
    return RouteRow(
        RouteId(row.id),
        TenantId(row.tenant_id) if row.tenant_id is not None else None,
        row.served_model,
        PoolId(row.pool_id),
        row.sku,
        row.default_max_output,
        row.created_at,
        row.published,
    )


def _pool(row: Pool, access: PoolAccess | None) -> PoolRow:
    """The specification is the pool's own; here it only has to name the model and the way to speak to it."""
    spec: dict[str, Any] = row.spec
    names = spec.get("served_names") or [row.name]
    times = PoolTimes(
        row.connect_timeout_s,
        row.first_token_timeout_s,
        row.between_tokens_timeout_s,
        row.total_timeout_s,
        row.keep_alive_s,
    )
    pool_id = PoolId(row.id)
    return PoolRow(
        pool_id,
        str(spec.get("kind", "tollway")),
        str(names[0]),
        row.strategy,
        frozenset(TenantId(tenant) for tenant in row.reserved_tenants),
        times if times != PoolTimes() else None,
        access.of(pool_id, row.sealed_api_key, spec.get("ca_bundle")) if access is not None else None,
    )


def _replica(row: Replica, pool: PoolRow) -> ReplicaRow:
    assert row.url is not None, "selected by it"
    url = row.url.rstrip("/")
    return ReplicaRow(ReplicaId(row.id), pool.id, url, row.epoch, pool.engine_kind, pool.access)
