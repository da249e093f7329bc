"""A tenant with a key on a real database, and the parts that look at it."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from gateway.audit.repository import Actor, AuditRepository
from gateway.clock import SystemClock
from gateway.db import Database
from gateway.ids import IdSource, TenantId
from gateway.obs.metrics import Metrics
from gateway.tenancy import (
    IssuedKey,
    KeyDirectory,
    KeyOptions,
    LimitSet,
    Peppers,
    RevisionFeed,
    TenancyService,
)
from gateway.tenancy.repository import TenancyRepository
from tests.fakes.clock import ManualClock

ADMIN = Actor("admin_key", "key_admin", "req_admin", "192.0.2.1")
PEPPERS = Peppers.of(p1=b"a pepper for the tests")


class RealStartClock(ManualClock):
    """Moved by hand from the real present on, so that it agrees with the database's clock."""

    def __init__(self) -> None:
        super().__init__(SystemClock().now())


def service_for(clock: ManualClock, limits: LimitSet | None = None) -> TenancyService:
    ids = IdSource(clock)
    return TenancyService(
        TenancyRepository(),
        AuditRepository(clock, ids),
        PEPPERS,
        clock,
        ids,
        os.urandom,
        limits or LimitSet(requests_per_min=600),
    )


@dataclass
class World:
    """One gateway's view: its database, feed and directory, and a service that changes things."""

    database: Database
    clock: ManualClock = field(default_factory=RealStartClock)
    metrics: Metrics = field(default_factory=Metrics)
    peppers: Peppers = PEPPERS
    patience_s: float = 30.0
    """For the database: a busy machine's is slow, not away."""

    def __post_init__(self) -> None:
        self.service = service_for(self.clock)
        self.feed = RevisionFeed(self.database, self.clock, self.metrics, self.patience_s)
        self.directory = KeyDirectory(
            self.database,
            self.feed,
            self.peppers,
            self.clock,
            self.metrics,
            load_timeout_s=self.patience_s,
        )

    async def tenant(self, name: str = "acme") -> TenantId:
        async with self.database.write() as session:
            return await self.service.create_tenant(session, ADMIN, name)

    async def key(self, tenant_id: TenantId, options: KeyOptions | None = None) -> IssuedKey:
        async with self.database.write() as session:
            return await self.service.create_key(session, ADMIN, tenant_id, "main", options=options)

    async def revoke(self, tenant_id: TenantId, key: IssuedKey) -> None:
        async with self.database.write() as session:
            await self.service.revoke_key(session, ADMIN, tenant_id, key.id)

    async def rotate(
        self, tenant_id: TenantId, key: IssuedKey, grace_s: float, idempotency: str
    ) -> IssuedKey:
        async with self.database.write() as session:
            return await self.service.rotate_key(session, ADMIN, tenant_id, key.id, grace_s, idempotency)

    def lookups(self, result: str) -> float:
        value = self.metrics.registry.get_sample_value("tollway_key_lookups_total", {"result": result})
        return value or 0.0


@asynccontextmanager
async def world_on(url: str, **parts: object) -> AsyncIterator[World]:
    database = Database(url, name="test", pool_size=4)
    try:
        yield World(database, **parts)  # type: ignore[arg-type]  # the dataclass's own fields
    finally:
        await database.close()


def bearer(key: IssuedKey) -> str:
    assert key.value is not None
    return f"Bearer {key.value}"
