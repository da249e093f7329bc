"""`tollway secrets …`: new peppers and master keys, and how far the old ones can go.

A gateway reads its files again by itself, so nothing restarts. Keys of tenants and administrators are stored under the
current pepper as soon as they are used; what is sealed in the database is sealed again here. It does not print.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from gateway.alerts.repository.endpoints import reseal_secrets, sealed_secrets
from gateway.alerts.webhooks.vault import Vault
from gateway.audit.repository import Actor, AuditEntry, AuditRepository
from gateway.clock import SystemClock
from gateway.db import Database, WriteConnection
from gateway.errors import Conflict
from gateway.idempotency.repository import owner_of, reseal, sealed_answers
from gateway.ids import IdSource
from gateway.keyring import Keyring, SecretBox, added, key_id_of, without, write_keys
from gateway.migrate import check_schema
from gateway.pool.access import SECRET_PURPOSE, secret_owner
from gateway.pool.repository import PoolRepository
from gateway.sessions.oidc.repository import reseal_provider, sealed_provider
from gateway.sessions.oidc.service import SECRET_PURPOSE as PROVIDER_PURPOSE
from gateway.settings import Settings, SettingsError
from gateway.tenancy.keys import master_ring, pepper_ring
from gateway.tenancy.repository import TenancyRepository

__all__ = ["KeyUse", "Secrets", "run"]

BATCH = 500
_OPERATOR = Actor("system", "operator")


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class KeyUse:
    """One key of a file, and how much there is that needs it."""

    name: str
    is_current: bool
    in_use: int


class Secrets:
    """On one database; `close()` it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._database = Database.of(settings.database, name="tollway-secrets", pool_size=1)
        clock = SystemClock()
        self._audit = AuditRepository(clock, IdSource(clock))

    async def close(self) -> None:
        await self._database.close()

    async def peppers(self) -> list[KeyUse]:
        """`in_use`: keys that work and are stored under it."""
        await check_schema(self._database)
        async with self._database.read() as session:
            used = await TenancyRepository().pepper_use(session)
        return _uses(pepper_ring(self._settings.security), used)

    async def master_keys(self) -> list[KeyUse]:
        """`in_use`: what is sealed under it in the database."""
        await check_schema(self._database)
        ring, used = master_ring(self._settings.security), Counter[str]()
        async with self._database.transaction() as connection:
            async for batch in _sealed(connection):
                used.update(key_id_of(sealed)[0] or "" for _, _, sealed in batch)
            async for secrets in _endpoints(connection):
                used.update(key_id_of(sealed)[0] or "" for _, sealed in secrets)
            used.update(key_id_of(sealed)[0] or "" for _, sealed in await sealed_provider(connection))
        async with self._database.write() as session:
            for _, sealed in await PoolRepository().sealed_keys(session):
                used[key_id_of(sealed)[0] or ""] += 1
        used[[*ring.keys.by_id][-1]] += used.pop("", 0)  # sealed before there were ids
        return _uses(ring, used)

    async def rotate_pepper(self, *, standby: bool) -> str:
        return await self._rotate(
            self._pepper_file(), pepper_ring(self._settings.security), "pepper", standby
        )

    async def rotate_master_key(self, *, standby: bool) -> str:
        """The new key's id. What is sealed in the database is sealed under it when this returns."""
        name = await self._rotate(
            self._master_file(), master_ring(self._settings.security), "master_key", standby
        )
        await self.seal_again()
        return name

    async def seal_again(self) -> int:
        """How much was sealed under an older key, and is sealed under the current one now."""
        await check_schema(self._database)
        return sum(
            [
                await self._seal_answers_again(),
                await self._seal_pools_again(),
                await self._seal_endpoints_again(),
            ]
        )

    async def _seal_pools_again(self) -> int:
        """The keys of engines that somebody else runs."""
        box, count = SecretBox(master_ring(self._settings.security), SECRET_PURPOSE, os.urandom), 0
        pools = PoolRepository()
        async with self._database.write() as session:
            for pool_id, sealed in await pools.sealed_keys(session):
                owner = secret_owner(pool_id)
                plain = None if box.is_current(sealed) else box.open(sealed, owner)
                if plain is not None:
                    await pools.reseal(session, pool_id, box.close(plain, owner))
                    count += 1
        return count

    async def _seal_endpoints_again(self) -> int:
        """The secrets of webhooks."""
        vault, count = Vault(master_ring(self._settings.security), os.urandom), 0
        async with self._database.transaction() as connection:
            async for secrets in _endpoints(connection):
                for endpoint_id, sealed in secrets:
                    fresh = vault.closed_again(endpoint_id, sealed)
                    if fresh is not None:
                        await reseal_secrets(connection, endpoint_id, sealed, fresh)
                        count += 1
        return count

    async def _seal_answers_again(self) -> int:
        box, count = SecretBox(master_ring(self._settings.security), "idempotency", os.urandom), 0
        async with self._database.transaction() as connection:
            async for batch in _sealed(connection):
                for row in batch:
                    owner = owner_of(row[0], row[1])
                    plain = None if box.is_current(row[2]) else box.open(row[2], owner)
                    if plain is not None:
                        await reseal(connection, row, box.close(plain, owner))
                        count += 1
            count += await self._seal_provider_again(connection)
        return count

    async def _seal_provider_again(self, connection: WriteConnection) -> int:
        box, count = SecretBox(master_ring(self._settings.security), PROVIDER_PURPOSE, os.urandom), 0
        for owner, sealed in await sealed_provider(connection):
            plain = None if box.is_current(sealed) else box.open(sealed, owner.encode())
            if plain is not None:
                await reseal_provider(connection, sealed, box.close(plain, owner.encode()))
                count += 1
        return count

    async def drop_pepper(self, name: str) -> None:
        """Raises Conflict while keys that work are stored under it: they are, until they are used or revoked."""
        _refuse(
            await self.peppers(), name, "keys are stored under it: they are stored anew when they are used"
        )
        await self._drop(self._pepper_file(), pepper_ring(self._settings.security), "pepper", name)

    async def drop_master_key(self, name: str) -> None:
        await self.seal_again()
        _refuse(await self.master_keys(), name, "secrets are sealed under it, and cannot be opened")
        await self._drop(self._master_file(), master_ring(self._settings.security), "master_key", name)

    async def _rotate(self, path: Path, ring: Keyring, kind: str, standby: bool) -> str:
        await check_schema(self._database)
        after = added(ring.keys, os.urandom, standby=standby)
        [name] = set(after.by_id) - set(ring.keys.by_id) or {after.current_id}
        await self._record(f"{kind}.created" if standby else f"{kind}.rotated", kind, name)
        await asyncio.to_thread(write_keys, path, after)
        return name

    async def _drop(self, path: Path, ring: Keyring, kind: str, name: str) -> None:
        keys = without(ring.keys, name)
        await self._record(f"{kind}.deleted", kind, name)
        await asyncio.to_thread(write_keys, path, keys)

    async def _record(self, action: str, kind: str, name: str) -> None:
        async with self._database.write() as session:
            await self._audit.append(session, _OPERATOR, AuditEntry(action, kind, name, None))

    def _pepper_file(self) -> Path:
        return _given(self._settings.security.key_pepper_file, "KEY_PEPPER_FILE")

    def _master_file(self) -> Path:
        return _given(self._settings.security.master_key_file, "MASTER_KEY_FILE")


def run(settings: Settings, act: Callable[[Secrets], Awaitable[T]]) -> T:
    async def work() -> T:
        rotation = Secrets(settings)
        try:
            return await act(rotation)
        finally:
            await rotation.close()

    return asyncio.run(work())


async def _sealed(connection: WriteConnection) -> AsyncIterator[list[tuple[str, bytes, bytes]]]:
    after = ("", b"")
    while batch := await sealed_answers(connection, after, BATCH):
        yield batch
        after = batch[-1][:2]


async def _endpoints(connection: WriteConnection) -> AsyncIterator[Sequence[tuple[str, bytes]]]:
    after = ""
    while batch := await sealed_secrets(connection, after, BATCH):
        yield batch
        after = batch[-1][0]


def _uses(ring: Keyring, used: Mapping[str, int]) -> list[KeyUse]:
    """The file's keys, and ids that are in use without being in it."""
    names = [*ring.keys.by_id, *(name for name in used if name not in ring.keys.by_id)]
    return [KeyUse(name, name == ring.keys.current_id, used.get(name, 0)) for name in names]


def _refuse(uses: list[KeyUse], name: str, why: str) -> None:
    count = next((use.in_use for use in uses if use.name == name), 0)
    if count:
        raise Conflict(f"{name} is needed: {count} {why}.")


def _given(path: Path | None, name: str) -> Path:
    if path is None:
        raise SettingsError(f"set TOLLWAY_SECURITY__{name}: what is given otherwise cannot be changed here")
    return path
