"""The key directory: Authorization header → Principal, from memory while the revision feed is fresh.

The first stop of every request. An entry is good while the feed is fresh and no tenancy change has been seen
since it was read; else it is read again. While Postgres is away known keys are served for `STALE_S`; a key
that cannot be read then is 503, never 401, because nobody can say that it does not exist. It does not know
models, limits' state or money.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from gateway.clock import Clock
from gateway.db import DATABASE_ERRORS, Database, is_unavailable, reason
from gateway.errors import InvalidApiKey, IpNotAuthorized, ServiceUnavailable
from gateway.ids import KeyId, TenantId
from gateway.obs.logging import get_logger
from gateway.obs.metrics import Children, Metrics
from gateway.tenancy.addresses import Network, is_allowed, parse_networks
from gateway.tenancy.keys import ApiKey, Peppers, bearer_key, mask_key
from gateway.tenancy.last_used import LastUsed
from gateway.tenancy.people.repository import PeopleRepository
from gateway.tenancy.people.types import AdminKeyRow
from gateway.tenancy.principal import AdminPrincipal, Principal
from gateway.tenancy.repository import KeyRow, TenancyRepository
from gateway.tenancy.revision import RevisionFeed

__all__ = ["STALE_S", "KeyDirectory"]

STALE_S = 30.0
KNOWN_MAX = 50_000
UNKNOWN_MAX = 10_000
LOAD_TIMEOUT_S = 3.0
"""What a look-up waits for, if for anything, is a connection."""
REHASHES_MAX = 8
"""Under way at once; the others have their turn with a later request."""
LOADS_MAX = 16
"""Look-ups under way at once: a flood of made-up keys cannot take all database connections."""


_log = get_logger(__name__)


class _Stored(Protocol):
    @property
    def secret_hmac(self) -> bytes: ...
    @property
    def pepper_id(self) -> str: ...
    @property
    def expires_at(self) -> datetime | None: ...
    @property
    def revoked_at(self) -> datetime | None: ...


@dataclass(frozen=True, slots=True)
class _Tenant:
    row: KeyRow
    principal: Principal
    networks: tuple[Network, ...]


@dataclass(frozen=True, slots=True)
class _Admin:
    row: AdminKeyRow
    principal: AdminPrincipal
    networks: tuple[Network, ...]


Found = TypeVar("Found")


class KeyDirectory:
    def __init__(
        self,
        database: Database,
        feed: RevisionFeed,
        peppers: Peppers,
        clock: Clock,
        metrics: Metrics,
        known_max: int = KNOWN_MAX,
        unknown_max: int = UNKNOWN_MAX,
        load_timeout_s: float = LOAD_TIMEOUT_S,
    ) -> None:
        self._database = database
        self._peppers = peppers
        self._clock = clock
        self._repository = TenancyRepository()
        self._people = PeopleRepository()
        slots = asyncio.Semaphore(LOADS_MAX)
        self.last_used = LastUsed(database, clock)
        self._rehashing: set[asyncio.Task[None]] = set()
        limits = _Limits(slots, known_max, unknown_max, load_timeout_s)
        self._tenants = _Cache(self._read_key, feed, metrics, limits)
        self._admins = _Cache(self._read_admin_key, feed, metrics, limits)

    async def authenticate(self, authorization: str | None, client_ip: str | None) -> Principal:
        """Raises 401 for what is not a good key, 503 if that cannot be known now."""
        key = bearer_key(authorization)
        found = await self._tenants.get(key.public_id)
        if found is None or not found.row.owner_is_active or not self._holds(key, found.row):
            raise InvalidApiKey(mask_key(key.value))
        self._let_in(key, found, client_ip, is_admin=False)
        return found.principal

    async def standing_for(self, tenant_id: TenantId, key_id: KeyId) -> Principal | None:
        """Whom work that a key began goes on for: the key, or what it was rotated into; None once none of them is good.
        Read from the database each time."""
        async with self._database.read() as session:
            row = await self._repository.live_key(session, tenant_id, key_id, self._clock.now())
        return _principal(row) if row is not None and row.owner_is_active else None

    async def authenticate_admin(self, authorization: str | None, client_ip: str | None) -> AdminPrincipal:
        key = bearer_key(authorization)
        found = await self._admins.get(key.public_id)
        if found is None or not found.row.user_is_active or not self._holds(key, found.row):
            raise InvalidApiKey(mask_key(key.value))
        self._let_in(key, found, client_ip, is_admin=True)
        return found.principal

    async def close(self) -> None:
        """What was begun is written when this returns."""
        await asyncio.gather(*self._rehashing, return_exceptions=True)
        await self.last_used.write()

    def _let_in(self, key: ApiKey, found: _Tenant | _Admin, client_ip: str | None, *, is_admin: bool) -> None:
        """What follows on a good key: from where it may be used, and what is written of its use."""
        if not is_allowed(client_ip, found.networks):
            raise IpNotAuthorized
        self.last_used.note(found.row.id, is_admin=is_admin)
        if self._peppers.is_old(found.row.pepper_id):
            self._rehash(key, found.row.id, found.row.pepper_id, is_admin=is_admin)

    def _rehash(self, key: ApiKey, key_id: KeyId, old: str, *, is_admin: bool) -> None:
        """A key that is used is stored under the current pepper from now on, so that an old one is needed no more.
        Its secret is known at this moment only. Not awaited: the request goes on."""
        if len(self._rehashing) < REHASHES_MAX:
            task = asyncio.create_task(self._store_again(key, key_id, old, is_admin=is_admin))
            self._rehashing.add(task)
            task.add_done_callback(self._rehashing.discard)

    async def _store_again(self, key: ApiKey, key_id: KeyId, old: str, *, is_admin: bool) -> None:
        try:
            async with self._database.write() as session:
                await self._repository.store_again(
                    session, key_id, old, *self._peppers.stored(key), is_admin=is_admin
                )
        except DATABASE_ERRORS as error:  # the next request tries again
            _log.warning("key not stored under the current pepper", error=reason(error))

    def _holds(self, key: ApiKey, row: _Stored) -> bool:
        proved = self._peppers.proves(key, row.secret_hmac, row.pepper_id)
        expired = row.expires_at is not None and self._clock.now() >= row.expires_at
        return proved and row.revoked_at is None and not expired

    async def _read_key(self, public_id: str) -> _Tenant | None:
        async with self._database.read() as session:
            row = await self._repository.key_by_public_id(session, public_id)
        return None if row is None else _Tenant(row, _principal(row), parse_networks(row.ip_allow_list))

    async def _read_admin_key(self, public_id: str) -> _Admin | None:
        async with self._database.read() as session:
            row = await self._people.admin_key_by_public_id(session, public_id)
        return None if row is None else _Admin(row, _administrator(row), parse_networks(row.ip_allow_list))


@dataclass(slots=True)
class _Entry(Generic[Found]):
    revision: int
    found: Found | None


@dataclass(frozen=True, slots=True)
class _Limits:
    slots: asyncio.Semaphore
    known_max: int
    unknown_max: int
    load_timeout_s: float


class _Cache(Generic[Found]):
    """What was read of the database by public id, known and unknown ids apart, each bounded."""

    def __init__(
        self,
        read: Callable[[str], Awaitable[Found | None]],
        feed: RevisionFeed,
        metrics: Metrics,
        limits: _Limits,
    ) -> None:
        self._read = read
        self._feed = feed
        self._lookups = Children(metrics.key_lookups)
        self._limits = limits
        self._known: OrderedDict[str, _Entry[Found]] = OrderedDict()
        self._unknown: OrderedDict[str, _Entry[Found]] = OrderedDict()
        self._loading: dict[str, asyncio.Task[Found | None]] = {}

    async def get(self, public_id: str) -> Found | None:
        entry = self._known.get(public_id) or self._unknown.get(public_id)
        if not self._feed.fresh:
            # A missed poll is no outage yet: what is not in memory is read, and that reading is fresh by itself.
            if self._feed.age_s > STALE_S or (entry is not None and entry.found is not None):
                return self._stale(entry)
        elif entry is not None and entry.revision == self._feed.revision("tenancy"):
            self._touch(public_id, entry)
            self._count("hit" if entry.found is not None else "unknown")
            return entry.found
        try:
            async with asyncio.timeout(self._limits.load_timeout_s):
                found = await self._load(public_id)
        except Exception as error:
            if not is_unavailable(error):
                raise
            _log.warning("key could not be looked up", error=reason(error))
            return self._stale(entry)
        self._count("loaded" if found is not None else "unknown")
        return found

    def _stale(self, entry: _Entry[Found] | None) -> Found:
        """A key that was there a moment ago; anything else cannot be told while the database is away."""
        if entry is None or entry.found is None or self._feed.age_s > STALE_S:
            self._count("unavailable")
            raise ServiceUnavailable("API keys cannot be checked right now. Please retry in a moment.")
        self._count("stale")
        return entry.found

    async def _load(self, public_id: str) -> Found | None:
        """One look-up however many requests wait for it; it goes on when one of them is cancelled."""
        task = self._loading.get(public_id)
        if task is None:
            task = self._loading[public_id] = asyncio.create_task(self._load_once(public_id))
            task.add_done_callback(lambda done: self._forget_load(public_id, done))
        return await asyncio.shield(task)

    async def _load_once(self, public_id: str) -> Found | None:
        async with self._limits.slots:
            # Before the read: a change that commits after it moves the feed beyond this entry.
            revision = self._feed.revision("tenancy")
            found = await self._read(public_id)
        self._store(public_id, _Entry(revision, found))
        return found

    def _forget_load(self, public_id: str, done: "asyncio.Task[Found | None]") -> None:
        del self._loading[public_id]
        if not done.cancelled():
            done.exception()  # whoever waited has it; if nobody did, nobody needs it

    def _store(self, public_id: str, entry: _Entry[Found]) -> None:
        self._known.pop(public_id, None)
        self._unknown.pop(public_id, None)
        is_unknown = entry.found is None
        part = self._unknown if is_unknown else self._known
        limit = self._limits.unknown_max if is_unknown else self._limits.known_max
        part[public_id] = entry
        if len(part) > limit:
            part.popitem(last=False)

    def _touch(self, public_id: str, entry: _Entry[Found]) -> None:
        (self._known if entry.found is not None else self._unknown).move_to_end(public_id)

    def _count(self, result: str) -> None:
        self._lookups[result,].inc()


def _principal(row: KeyRow) -> Principal:
    return Principal(
        tenant_id=row.tenant_id,
        key_id=row.id,
        scopes=row.scopes,
        service_account_id=row.service_account_id,
        fairness_weight=row.fairness_weight,
        cache_sharing_group=row.cache_sharing_group,
        is_idempotent=row.is_idempotent,
        lineage_id=row.lineage_id,
        limits=row.limits,
    )


def _administrator(row: AdminKeyRow) -> AdminPrincipal:
    roles = {row.role} if row.user_role is None else {row.role, row.user_role}
    return AdminPrincipal(row.id, frozenset(roles), row.user_id, row.projects)
