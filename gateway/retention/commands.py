"""What an operator's commands do with the database: one function per command, from settings to an answer."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import date
from pathlib import Path
from typing import TypeVar

import msgspec

from gateway.blobs import open_blobs
from gateway.clock import SystemClock
from gateway.db import Database
from gateway.errors import Conflict, NotFound
from gateway.ids import IdSource
from gateway.ledger.repository.closing import closed_before
from gateway.ledger.repository.review import open_items, resolve_item
from gateway.ledger.repository.rollups import Drift, rebuild_day
from gateway.retention.tenants import Copied, TenantData
from gateway.settings import Settings

__all__ = ["copy_tenant", "delete_tenant", "forget", "open_review", "rebuild", "resolve"]

PAGE = 100
T = TypeVar("T")


async def copy_tenant(settings: Settings, tenant_id: str, out: Path) -> Mapping[str, Copied]:
    return await _with_data(settings, lambda data: data.copy(tenant_id, out))


async def delete_tenant(settings: Settings, tenant_id: str) -> Mapping[str, int]:
    return await _with_data(settings, lambda data: data.delete(tenant_id))


async def forget(settings: Settings, tenant_id: str, user: str) -> int:
    return await _with_data(settings, lambda data: data.forget_user(tenant_id, user))


async def open_review(settings: Settings, after: int) -> list[str]:
    async def read(database: Database) -> list[str]:
        async with database.transaction() as connection:
            return [msgspec.json.encode(item).decode() for item in await open_items(connection, after, PAGE)]

    return await _with_database(settings, read)


async def resolve(settings: Settings, item: int, how: str) -> None:
    """Raises NotFound if no such item is open."""

    async def write(database: Database) -> None:
        async with database.transaction() as connection:
            if not await resolve_item(connection, item, how):
                raise NotFound(f"There is no open item {item}.")

    await _with_database(settings, write)


async def rebuild(settings: Settings, day: date) -> Drift:
    """Raises Conflict for a day of a closed period, which never changes."""

    async def write(database: Database) -> Drift:
        async with database.transaction() as connection:
            closed = await closed_before(connection)
            if closed is not None and day < closed.date():
                raise Conflict(f"{day} belongs to a closed billing period")
            return await rebuild_day(connection, day)

    return await _with_database(settings, write)


async def _with_data(settings: Settings, work: Callable[[TenantData], Awaitable[T]]) -> T:
    clock = SystemClock()
    blobs = open_blobs(settings.server.files, settings.exports.s3_credentials_file)
    return await _with_database(
        settings, lambda database: work(TenantData(database, blobs, clock, IdSource(clock)))
    )


async def _with_database(settings: Settings, work: Callable[[Database], Awaitable[T]]) -> T:
    database = Database.of(settings.database, name="tollway-command", pool_size=1, patient=True)
    try:
        return await work(database)
    finally:
        await database.close()
