"""What a served name means to one tenant, and a replica as the database knows it. Frozen values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Literal

from gateway.ids import PoolId, ReplicaId, RouteId, TenantId
from gateway.ledger.types import Prices
from gateway.pool.access import EngineAccess

__all__ = [
    "BATCH_CLASS",
    "Permission",
    "PoolRow",
    "PoolTimes",
    "PriceFilter",
    "PriceRow",
    "ReplicaRow",
    "RequestClass",
    "RouteRow",
    "RoutingRows",
    "Target",
]

RequestClass = Literal["interactive", "batch"]
BATCH_CLASS: RequestClass = "batch"


@dataclass(frozen=True, slots=True)
class PoolTimes:
    """A pool's own times, in seconds; None means the gateway's setting."""

    connect_s: float | None = None
    first_token_s: float | None = None
    between_tokens_s: float | None = None
    total_s: float | None = None
    keep_alive_s: float | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes and what it costs, fixed when it is admitted."""

    route_id: RouteId
    pool_id: PoolId
    served_model: str
    upstream_model: str
    engine_kind: str
    strategy: str
    prices: Prices
    default_max_output: int
    created_at: datetime
    batch_prices: Prices | None = None
    """What requests of class `batch` pay; the same as others when there are none."""
    times: PoolTimes | None = None
    """None: the gateway's settings hold."""
    access: EngineAccess | None = None
    """What engines that somebody else runs ask for."""

    def prices_for(self, request_class: RequestClass) -> Prices:
        return self.batch_prices or self.prices if request_class == BATCH_CLASS else self.prices


@dataclass(frozen=True, slots=True)
class RouteRow:
    id: RouteId
    tenant_id: TenantId | None
    served_model: str
    pool_id: PoolId
    sku: str
    default_max_output: int
    created_at: datetime
    published: bool = True


@dataclass(frozen=True, slots=True)
class PriceRow:
    id: int
    sku: str
    component: str
    valid_from: datetime
    nanousd_per_token: Decimal
    valid_until: datetime | None = None
    """When the next row of the component takes over; only the history says."""


@dataclass(frozen=True, slots=True)
class PriceFilter:
    """Which price rows a reader wants; `at`: those in force then."""

    sku: str | None = None
    component: str | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class PoolRow:
    id: PoolId
    engine_kind: str
    upstream_model: str
    strategy: str
    reserved_tenants: frozenset[TenantId]
    times: PoolTimes | None = None
    access: EngineAccess | None = None


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    id: ReplicaId
    pool_id: PoolId
    url: str
    epoch: str | None
    engine_kind: str
    access: EngineAccess | None = None


@dataclass(frozen=True, slots=True)
class RoutingRows:
    """One consistent reading of everything that routing depends on."""

    routes: Sequence[RouteRow]
    prices: Sequence[PriceRow]
    pools: Mapping[PoolId, PoolRow]
    replicas: Sequence[ReplicaRow]


@dataclass(frozen=True, slots=True)
class Permission:
    """Which served names a tenant may use; without one it may use every route that matches it."""

    mode: Literal["allow_list", "deny_list"]
    names: frozenset[str]

    def allows(self, served_model: str) -> bool:
        return (served_model in self.names) == (self.mode == "allow_list")
