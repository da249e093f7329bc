"""Batches as their tenant asks for them: made, looked at, cancelled. Running them is runner.py's.

A batch is there for its tenant alone; anybody else's id is as unknown as one that never was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from gateway.batches.lines import ENDPOINTS
from gateway.batches.repository.batches import (
    ask_to_cancel,
    batches_of,
    count_active,
    find_batch,
    insert_batch,
)
from gateway.batches.repository.files import find_file
from gateway.batches.types import BatchRow, NewBatch
from gateway.clock import Clock
from gateway.db import Database
from gateway.errors import Conflict, InvalidRequest, InvalidValue, NotFound
from gateway.ids import IdSource, TenantId
from gateway.tenancy.principal import Principal

__all__ = ["WINDOW", "BatchService", "Wanted"]

WINDOW = "24h"
WINDOW_TIME = timedelta(hours=24)
ACTIVE_MAX = 200


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a caller asks for, its types checked."""

    endpoint: str
    input_file_id: str
    completion_window: str
    labels: Mapping[str, str] | None
    output_expires_after_s: int | None


class BatchService:
    def __init__(self, database: Database, clock: Clock, ids: IdSource) -> None:
        self._database = database
        self._clock = clock
        self._ids = ids

    async def create(self, principal: Principal, wanted: Wanted) -> BatchRow:
        """It runs under the caller's key, for as long as that key or a successor of it is good."""
        if wanted.endpoint not in ENDPOINTS:
            raise InvalidValue(f"'endpoint' must be one of {', '.join(ENDPOINTS)}.", "endpoint")
        if wanted.completion_window != WINDOW:
            raise InvalidValue(f"'completion_window' must be '{WINDOW}'.", "completion_window")
        tenant_id, now = principal.tenant_id, self._clock.now()
        async with self._database.transaction() as connection:
            file = await find_file(connection, tenant_id, wanted.input_file_id, now)
            if file is None:
                raise InvalidValue(f"No such File object: {wanted.input_file_id}", "input_file_id")
            if file.purpose != "batch":
                raise InvalidValue("The input file must have the purpose 'batch'.", "input_file_id")
            if await count_active(connection, tenant_id) >= ACTIVE_MAX:
                raise InvalidRequest(f"Your project has {ACTIVE_MAX} batches that have not ended.")
            new = NewBatch(
                tenant_id=tenant_id,
                id=f"batch_{self._ids.uuid7().hex}",
                key_id=principal.key_id,
                endpoint=wanted.endpoint,
                input_file_id=wanted.input_file_id,
                completion_window=wanted.completion_window,
                labels=wanted.labels,
                created_at=now,
                expires_at=now + WINDOW_TIME,
                output_expires_after_s=wanted.output_expires_after_s,
            )
            return await insert_batch(connection, new)

    async def get(self, tenant_id: TenantId, batch_id: str) -> BatchRow:
        async with self._database.transaction() as connection:
            row = await find_batch(connection, tenant_id, batch_id)
        if row is None:
            raise NotFound(f"No batch found with id '{batch_id}'.")
        return row

    async def page(self, tenant_id: TenantId, limit: int, after: str | None) -> list[BatchRow]:
        async with self._database.transaction() as connection:
            return await batches_of(connection, tenant_id, limit, after)

    async def cancel(self, tenant_id: TenantId, batch_id: str) -> BatchRow:
        """Requests in flight still end; the others are not begun. Raises 409 for a batch that has ended."""
        async with self._database.transaction() as connection:
            await ask_to_cancel(connection, tenant_id, batch_id, self._clock.now())
        row = await self.get(tenant_id, batch_id)
        if row.state != "cancelling" and row.state != "cancelled":
            raise Conflict(f"The batch is {row.state} and cannot be cancelled any more.")
        return row
