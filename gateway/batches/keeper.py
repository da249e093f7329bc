"""Keeps a lease while its batch is worked on, and knows what has changed meanwhile: cancelled, lost, the key revoked."""

from __future__ import annotations

import asyncio
from typing import Protocol

from gateway.batches.repository.running import renew
from gateway.batches.types import BatchState, Lease
from gateway.clock import Clock
from gateway.db import DATABASE_ERRORS, Database, reason
from gateway.ids import KeyId, TenantId
from gateway.obs.logging import get_logger
from gateway.tenancy.principal import MODEL_SCOPE, Principal

__all__ = ["Keeper", "Standing"]

BEATS_PER_LEASE = 5

_log = get_logger(__name__)


class Standing(Protocol):
    """The key directory, as far as work that goes on without its caller needs it."""

    async def standing_for(self, tenant_id: TenantId, key_id: KeyId) -> Principal | None: ...


class Keeper:
    """`begin` it, then `run` it beside the work."""

    def __init__(
        self, database: Database, lease: Lease, standing: Standing, clock: Clock, lease_s: float
    ) -> None:
        self._database = database
        self._lease = lease
        self._standing = standing
        self._clock = clock
        self._lease_s = lease_s
        self._sure_until = clock.monotonic() + lease_s
        self.state: BatchState = lease.batch.state
        self.principal: Principal | None = None
        self.is_lost = False

    @property
    def may_go_on(self) -> bool:
        """Whether new lines may be begun: sure that nobody else does, for somebody who may."""
        is_sure = not self.is_lost and self._clock.monotonic() < self._sure_until
        return is_sure and self.state != "cancelling" and self.principal is not None

    async def begin(self) -> None:
        await self._look_up_key()

    async def run(self) -> None:
        """Until the lease is lost."""
        while not self.is_lost:
            await asyncio.sleep(self._lease_s / BEATS_PER_LEASE)
            try:
                await self._beat()
                await self._look_up_key()
            except DATABASE_ERRORS as error:
                _log.warning("batch_lease_not_renewed", batch=self._lease.batch.id, error=reason(error))

    async def _beat(self) -> None:
        asked_at = self._clock.monotonic()
        async with self._database.transaction() as connection:
            state = await renew(connection, self._lease, self._lease_s)
        if state is None:
            self.is_lost = True
        else:
            self.state, self._sure_until = state, asked_at + self._lease_s

    async def _look_up_key(self) -> None:
        batch = self._lease.batch
        principal = await self._standing.standing_for(batch.tenant_id, batch.key_id)
        self.principal = principal if principal is not None and MODEL_SCOPE in principal.scopes else None
