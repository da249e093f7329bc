"""A service of endpoints and a courier that brings them events, on a real database and towards real receivers."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any

import pytest

from gateway.alerts.courier import Courier
from gateway.alerts.webhooks.channel import WebhookChannel
from gateway.alerts.webhooks.guard import Guard
from gateway.alerts.webhooks.sender import Sender
from gateway.alerts.webhooks.service import EndpointService, WebhookParts
from gateway.alerts.webhooks.types import Endpoint, NewEndpoint
from gateway.alerts.webhooks.vault import Vault
from gateway.audit.repository import Actor, AuditRepository
from gateway.clock import SystemClock
from gateway.db import Database
from gateway.events import Event, EventType, announce
from gateway.ids import IdSource, TenantId
from gateway.keyring import Keyring, Keys
from gateway.obs.metrics import Metrics
from tests.gateway.alerts.conftest import DUE_S
from tests.gateway.books import Books, books

__all__ = ["DUE_S", "books"]

ACTOR = Actor("admin_key", "key_1")
TENANT = TenantId("proj_a")


@dataclass
class Hooks:
    books: Books
    parts: WebhookParts
    service: EndpointService
    courier: Courier

    async def add(
        self, url: str, *types: str, tenant_id: TenantId | None = TENANT, **fields: Any
    ) -> tuple[Endpoint, str]:
        new = NewEndpoint(tenant_id, "hook", url, types or ("budget.exhausted",), **fields)
        async with self.parts.database.write() as session:
            return await self.service.create(session, ACTOR, new)

    async def tell(
        self, *keys: str, kind: EventType = "budget.exhausted", tenant_id: str | None = TENANT
    ) -> Sequence[str]:
        """Their ids."""
        at = self.parts.clock.now()
        events = [Event(kind, tenant_id, key, {"summary": key, "n": key}, at) for key in keys]
        async with self.parts.database.transaction() as connection:
            await announce(connection, events)
        return [event.id for event in events]

    async def make_due(self) -> None:
        await self.books.run("UPDATE delivery SET next_attempt_at = now() WHERE next_attempt_at IS NOT NULL")

    async def endpoint(self, endpoint_id: str) -> dict[str, Any]:
        [row] = await self.books.rows("SELECT * FROM webhook_endpoint WHERE id = :id", id=endpoint_id)
        return dict(row._mapping)


@pytest.fixture
async def hooks(books: Books, database_url: str) -> AsyncIterator[Hooks]:
    database = Database(database_url, name="test-hooks", pool_size=6)
    clock = SystemClock()
    ids, guard = IdSource(clock), Guard((ip_network("127.0.0.1/32"),))
    sender = Sender(guard, clock, timeout_s=60.0, answer_timeout_s=60.0)
    await sender.start()
    parts = WebhookParts(
        database=database,
        sender=sender,
        vault=Vault(Keyring(Keys({"m1": b"a master key"})), os.urandom),
        guard=guard,
        audit=AuditRepository(clock, ids),
        clock=clock,
        ids=ids,
        entropy=os.urandom,
    )
    channel = WebhookChannel(database, sender, parts.vault, clock)
    courier = Courier(database, [channel], clock=clock, ids=ids, draw=lambda bound: 0, metrics=Metrics())
    yield Hooks(books, parts, EndpointService(parts), courier)
    await sender.close()
    await database.close()
