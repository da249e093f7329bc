"""(tenant, served name) → Target: the one look-up that decides what a tenant may call.

Works on a reading of the tables that is kept in memory and replaced when the revision feed moves, so a look-up
costs no query, and an unknown name and a forbidden one take exactly the same path. It does not know replicas'
health or a request's contents.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from gateway.clock import Clock
from gateway.db import Database
from gateway.ids import RouteId, TenantId
from gateway.ledger.types import Prices
from gateway.pool.access import PoolAccess
from gateway.routing.repository import BATCH_COMPONENTS, COMPONENTS, RoutingRepository
from gateway.routing.target import (
    Permission,
    PoolRow,
    PriceRow,
    ReplicaRow,
    RouteRow,
    RoutingRows,
    Target,
)

__all__ = ["Catalogue"]

_NOTHING = RoutingRows((), (), {}, ())


class Catalogue:
    """`load()` before the first look-up and whenever the `routing` or `tenancy` revision moves."""

    def __init__(self, database: Database, clock: Clock, access: PoolAccess | None = None) -> None:
        self._database = database
        self._access = access
        self.clock = clock
        self._repository = RoutingRepository()
        self._loading = asyncio.Lock()
        self._rows = _NOTHING
        self._routes: Mapping[tuple[TenantId | None, str], RouteRow] = {}
        self._permissions: Mapping[TenantId, Permission] = {}
        self._prices: Mapping[str, _PriceList] = {}
        self._targets: dict[RouteId, tuple[_Current, Target]] = {}
        self.tenants: Sequence[TenantId] = ()
        self.is_loaded = False

    async def load(self) -> None:
        """Errors of the database pass: what was read before stays in use."""
        async with self._loading, self._database.read() as session:
            rows = await self._repository.rows(session, self._access)
            permissions = await self._repository.permissions(session)
            self.tenants = await self._repository.tenants(session)
        self._rows = rows
        self._routes = {(route.tenant_id, route.served_model): route for route in rows.routes}
        self._permissions = permissions
        self._prices = _price_lists(rows.prices)
        self._targets = {}
        self.is_loaded = True

    @property
    def replicas(self) -> Sequence[ReplicaRow]:
        return self._rows.replicas

    def resolve(self, tenant_id: TenantId, served_model: str) -> Target | None:
        """None for a name that does not exist and for one that this tenant may not use: nobody can tell."""
        own = self._routes.get((tenant_id, served_model))
        common = self._routes.get((None, served_model))
        permission = self._permissions.get(tenant_id)
        route = own or common
        allowed = permission is None or permission.allows(served_model)
        if route is None or not allowed:
            return None
        pool = self._rows.pools.get(route.pool_id)
        if pool is None:
            return None
        if pool.reserved_tenants and tenant_id not in pool.reserved_tenants:
            return None
        current = self._current(route.sku)
        return None if current is None else self._target(route, pool, current)

    def names(self, tenant_id: TenantId) -> list[Target]:
        """Everything that `resolve` would find for the tenant, by name."""
        names = {name for owner, name in self._routes if owner in (None, tenant_id)}
        found = (self.resolve(tenant_id, name) for name in sorted(names))
        return [target for target in found if target is not None]

    def label_values(self) -> Iterable[str]:
        """The served names that exist, for the metrics' labels."""
        return {name for _, name in self._routes}

    def _target(self, route: RouteRow, pool: PoolRow, current: _Current) -> Target:
        """The last one while its prices hold: most requests ask for the same few."""
        known = self._targets.get(route.id)
        if known is not None and known[0] is current:
            return known[1]
        target = _target(route, pool, current)
        self._targets[route.id] = (current, target)
        return target

    def _current(self, sku: str) -> _Current | None:
        prices = self._prices.get(sku)
        return prices.at(self.clock.now()) if prices is not None else None


@dataclass(frozen=True, slots=True)
class _Current:
    """What holds at a time, for the two classes of requests."""

    prices: Prices
    batch_prices: Prices


class _PriceList:
    """The price rows of one sku, and those that hold at a time. The last answer is kept while it holds."""

    def __init__(self, rows: Mapping[str, Sequence[PriceRow]]) -> None:
        self._rows = rows
        changes = sorted({row.valid_from for component in rows.values() for row in component})
        self._changes: Sequence[datetime] = changes
        self._known: tuple[int, _Current | None] = (-1, None)

    def at(self, now: datetime) -> _Current | None:
        era = bisect_right(self._changes, now)
        if self._known[0] != era:
            self._known = (era, self._find(now))
        return self._known[1]

    def _find(self, now: datetime) -> _Current | None:
        plain = [self._row(component, now) for component in COMPONENTS]
        batch = [self._row(component, now) for component in BATCH_COMPONENTS]
        known = [row for row in plain if row is not None]
        if len(known) < len(COMPONENTS):
            return None
        return _Current(_prices(known), _prices([_newer(*pair) for pair in zip(known, batch, strict=True)]))

    def _row(self, component: str, now: datetime) -> PriceRow | None:
        valid = [row for row in self._rows.get(component, ()) if row.valid_from <= now]
        return valid[-1] if valid else None


def _newer(plain: PriceRow, batch: PriceRow | None) -> PriceRow:
    """A batch price belongs to its version: an ordinary price that came after it without one replaces both."""
    return batch if batch is not None and batch.valid_from >= plain.valid_from else plain


def _prices(rows: Sequence[PriceRow]) -> Prices:
    entry, cached, output = rows
    return Prices(
        input_id=entry.id,
        cached_input_id=cached.id,
        output_id=output.id,
        input_nanousd=entry.nanousd_per_token,
        cached_input_nanousd=cached.nanousd_per_token,
        output_nanousd=output.nanousd_per_token,
    )


def _price_lists(rows: Sequence[PriceRow]) -> Mapping[str, _PriceList]:
    by_sku: defaultdict[str, defaultdict[str, list[PriceRow]]] = defaultdict(lambda: defaultdict(list))
    for row in sorted(rows, key=lambda row: row.valid_from):
        by_sku[row.sku][row.component].append(row)
    return {sku: _PriceList(components) for sku, components in by_sku.items()}


def _target(route: RouteRow, pool: PoolRow, current: _Current) -> Target:
    return Target(
        route_id=route.id,
        pool_id=pool.id,
        served_model=route.served_model,
        upstream_model=pool.upstream_model,
        engine_kind=pool.engine_kind,
        strategy=pool.strategy,
        prices=current.prices,
        batch_prices=current.batch_prices,
        default_max_output=route.default_max_output,
        created_at=route.created_at,
        times=pool.times,
        access=pool.access,
    )
