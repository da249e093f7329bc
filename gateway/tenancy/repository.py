"""All SQL of tenancy. Tenants, service accounts, keys, limits, and the revisions that changes raise.

Every method names its tenant, except the door: a key is found by its public part, before its tenant is known. Nothing here decides; `service` and `directory` do.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Select, bindparam, func, insert, or_, select, update
from sqlalchemy.dialects.postgresql import insert as pg_insert

from gateway.db import Lane, Prepared, ReadSession, WriteConnection, WriteSession, rows_of
from gateway.ids import KeyId, ServiceAccountId, TenantId, UserId
from gateway.tenancy.models import AdminApiKey, ApiKey, OrganizationUser, RateLimit, ServiceAccount, Tenant
from gateway.tenancy.principal import LimitSet, ScopedLimits

__all__ = ["KeyRow", "TenancyRepository", "scoped_limits"]

_REVISIONS = Prepared("SELECT topic, revision FROM config_revision")

_LIMIT_FIELDS = tuple(LimitSet.__slots__)


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A tenant's key with everything that a request of it needs to know."""

    tenant_id: TenantId
    id: KeyId
    name: str
    lineage_id: KeyId
    """The first key of the chain of rotations: limits and budgets of a key are kept under this id."""
    public_id: str
    secret_hmac: bytes
    pepper_id: str
    service_account_id: ServiceAccountId | None
    scopes: frozenset[str]
    ip_allow_list: tuple[str, ...]
    expires_at: datetime | None
    revoked_at: datetime | None
    rotated_from: KeyId | None
    owner_is_active: bool
    """The tenant is not archived and the service account, if any, not deleted."""
    fairness_weight: int
    cache_sharing_group: str | None
    is_idempotent: bool = False
    limits: tuple[ScopedLimits, ...] = ()
    user_id: UserId | None = None
    """Whose requests from the console it stands for."""


class TenancyRepository:
    async def revisions(self, connection: WriteConnection | Lane) -> Mapping[str, int]:
        return {row[0]: row[1] for row in await rows_of(connection, _REVISIONS, {})}

    async def key_by_public_id(self, session: ReadSession, public_id: str) -> KeyRow | None:
        """The door: the tenant follows from the key."""
        found = (await session.execute(_keys().where(ApiKey.public_id == public_id))).one_or_none()
        if found is None:
            return None
        key, tenant, account = found
        tenant_id = TenantId(key.tenant_id)
        lineage_id = await self.lineage_id(session, tenant_id, KeyId(key.id))
        limits = await self.limits_of_key(session, tenant_id, lineage_id)
        return _key_row(key, tenant, account, lineage_id, limits)

    async def live_key(
        self, session: ReadSession, tenant_id: TenantId, key_id: KeyId, now: datetime
    ) -> KeyRow | None:
        """The newest of a key and what it was rotated into that is neither revoked nor expired."""
        columns = (ApiKey.id, ApiKey.public_id, ApiKey.created_at, ApiKey.revoked_at, ApiKey.expires_at)
        step = (
            select(*columns)
            .where(ApiKey.tenant_id == tenant_id, ApiKey.id == key_id)
            .cte("successors", recursive=True)
        )
        newer = select(*columns).where(ApiKey.tenant_id == tenant_id, ApiKey.rotated_from == step.c.id)
        chain = step.union_all(newer)
        live = chain.c.revoked_at.is_(None) & (chain.c.expires_at.is_(None) | (chain.c.expires_at > now))
        newest = select(chain.c.public_id).where(live).order_by(chain.c.created_at.desc()).limit(1)
        public_id = await session.scalar(newest)
        return await self.key_by_public_id(session, public_id) if public_id is not None else None

    async def lineage_id(
        self, session: ReadSession | WriteSession, tenant_id: TenantId, key_id: KeyId
    ) -> KeyId:
        """The first key of the rotations that led to this one, however many: a key may be rotated each hour."""
        step = (
            select(ApiKey.id, ApiKey.rotated_from)
            .where(ApiKey.tenant_id == tenant_id, ApiKey.id == key_id)
            .cte("lineage", recursive=True)
        )
        older = select(ApiKey.id, ApiKey.rotated_from).where(
            ApiKey.tenant_id == tenant_id, ApiKey.id == step.c.rotated_from
        )
        chain = step.union_all(older)
        return KeyId((await session.scalars(select(chain.c.id).where(chain.c.rotated_from.is_(None)))).one())

    async def first_ids(self, session: ReadSession, key_ids: Sequence[str]) -> list[str]:
        """For each the first key of its rotations, under which the ledger keeps what it did; itself if unknown."""
        step = (
            select(ApiKey.id.label("asked"), ApiKey.tenant_id, ApiKey.id, ApiKey.rotated_from)
            .where(ApiKey.id.in_(key_ids))
            .cte("first_ids", recursive=True)
        )
        older = select(step.c.asked, ApiKey.tenant_id, ApiKey.id, ApiKey.rotated_from).where(
            ApiKey.tenant_id == step.c.tenant_id, ApiKey.id == step.c.rotated_from
        )
        chain = step.union_all(older)
        rows = await session.execute(select(chain.c.asked, chain.c.id).where(chain.c.rotated_from.is_(None)))
        firsts = {row.asked: row.id for row in rows}
        return [firsts.get(key_id, key_id) for key_id in key_ids]

    async def limits_of_key(
        self, session: ReadSession, tenant_id: TenantId, lineage_id: KeyId
    ) -> tuple[ScopedLimits, ...]:
        """The tenant's own rows and those of the key, each for all models or for one."""
        rows = await session.scalars(
            select(RateLimit)
            .where(
                RateLimit.tenant_id == tenant_id,
                or_(RateLimit.key_id.is_(None), RateLimit.key_id == lineage_id),
            )
            .order_by(RateLimit.key_id.nulls_first(), RateLimit.served_model.nulls_first())
        )
        return tuple(scoped_limits(row) for row in rows)

    async def key(self, session: WriteSession, tenant_id: TenantId, key_id: KeyId) -> KeyRow | None:
        """For a change: the row is locked until the transaction ends."""
        query = _keys().where(ApiKey.tenant_id == tenant_id, ApiKey.id == key_id)
        found = (await session.execute(query.with_for_update(of=ApiKey))).one_or_none()
        if found is None:
            return None
        key, tenant, account = found
        return _key_row(key, tenant, account, await self.lineage_id(session, tenant_id, key_id), ())

    async def personal_key(
        self, session: ReadSession | WriteSession, tenant_id: TenantId, user_id: UserId
    ) -> KeyId | None:
        """What the user's requests from the console are counted under."""
        query = select(ApiKey.id).where(
            ApiKey.tenant_id == tenant_id, ApiKey.user_id == user_id, ApiKey.revoked_at.is_(None)
        )
        found = await session.scalar(query)
        return KeyId(found) if found is not None else None

    async def lock_user(self, session: WriteSession, user_id: UserId) -> None:
        """One at a time makes something of this user's, until the transaction ends."""
        await session.execute(
            select(OrganizationUser.id).where(OrganizationUser.id == user_id).with_for_update()
        )

    async def successor(
        self, session: WriteSession, tenant_id: TenantId, key_id: KeyId, rotation_key: str
    ) -> KeyId | None:
        """The key that this rotation of `key_id` already made."""
        found = await session.scalar(
            select(ApiKey.id).where(
                ApiKey.tenant_id == tenant_id,
                ApiKey.rotated_from == key_id,
                ApiKey.rotation_key == rotation_key,
            )
        )
        return KeyId(found) if found is not None else None

    async def tenant_is_active(self, session: WriteSession, tenant_id: TenantId) -> bool | None:
        """None if there is no such tenant. Locked against archiving until the transaction ends."""
        status = await session.scalar(
            select(Tenant.status).where(Tenant.id == tenant_id).with_for_update(read=True)
        )
        return None if status is None else status == "active"

    async def service_account_exists(
        self, session: WriteSession, tenant_id: TenantId, service_account_id: ServiceAccountId
    ) -> bool:
        query = select(ServiceAccount.id).where(
            ServiceAccount.tenant_id == tenant_id,
            ServiceAccount.id == service_account_id,
            ServiceAccount.deleted_at.is_(None),
        )
        return await session.scalar(query) is not None

    async def limits_of_scope(
        self, session: WriteSession, tenant_id: TenantId, key_id: KeyId | None, served_model: str | None
    ) -> tuple[str, LimitSet] | None:
        """The row's id and its limits."""
        query = select(RateLimit).where(
            RateLimit.tenant_id == tenant_id,
            RateLimit.key_id.is_not_distinct_from(key_id),
            RateLimit.served_model.is_not_distinct_from(served_model),
        )
        row = (await session.scalars(query.with_for_update())).one_or_none()
        return (row.id, scoped_limits(row).limits) if row is not None else None

    async def insert_tenant(self, session: WriteSession, tenant_id: TenantId, name: str, weight: int) -> None:
        await session.execute(insert(Tenant).values(id=tenant_id, name=name, fairness_weight=weight))

    async def archive_tenant(self, session: WriteSession, tenant_id: TenantId, at: datetime) -> None:
        await session.execute(
            update(Tenant)
            .where(Tenant.id == tenant_id)
            .values(status="archived", archived_at=at, updated_at=at)
        )

    async def insert_service_account(
        self, session: WriteSession, tenant_id: TenantId, id: ServiceAccountId, name: str, role: str
    ) -> None:
        await session.execute(insert(ServiceAccount).values(tenant_id=tenant_id, id=id, name=name, role=role))

    async def insert_key(self, session: WriteSession, row: KeyRow, rotation_key: str | None = None) -> bool:
        """False if the public part is taken; then nothing was written."""
        written = await session.scalar(
            pg_insert(ApiKey)
            .values(
                tenant_id=row.tenant_id,
                id=row.id,
                name=row.name,
                public_id=row.public_id,
                secret_hmac=row.secret_hmac,
                pepper_id=row.pepper_id,
                service_account_id=row.service_account_id,
                user_id=row.user_id,
                scopes=sorted(row.scopes),
                ip_allow_list=list(row.ip_allow_list),
                expires_at=row.expires_at,
                rotated_from=row.rotated_from,
                rotation_key=rotation_key,
            )
            .on_conflict_do_nothing(index_elements=[ApiKey.public_id])
            .returning(ApiKey.id)
        )
        return written is not None

    async def revoke_key(
        self, session: WriteSession, tenant_id: TenantId, key_id: KeyId, at: datetime
    ) -> None:
        await session.execute(
            update(ApiKey)
            .where(ApiKey.tenant_id == tenant_id, ApiKey.id == key_id, ApiKey.revoked_at.is_(None))
            .values(revoked_at=at)
        )

    async def change_key(
        self, session: WriteSession, tenant_id: TenantId, key_id: KeyId, row: KeyRow
    ) -> None:
        """Scopes, expiry and IP allow-list as `row` says."""
        await session.execute(
            update(ApiKey)
            .where(ApiKey.tenant_id == tenant_id, ApiKey.id == key_id)
            .values(
                scopes=sorted(row.scopes), expires_at=row.expires_at, ip_allow_list=list(row.ip_allow_list)
            )
        )

    async def store_again(
        self, session: WriteSession, key_id: KeyId, old: str, pepper_id: str, digest: bytes, *, is_admin: bool
    ) -> None:
        """Under another pepper, unless somebody did so meanwhile. A key's door, so without its tenant."""
        table = AdminApiKey if is_admin else ApiKey
        await session.execute(
            update(table)
            .where(table.id == key_id, table.pepper_id == old)
            .values(pepper_id=pepper_id, secret_hmac=digest)
        )

    async def note_use(
        self, session: WriteSession, last_used: Mapping[KeyId, datetime], *, is_admin: bool
    ) -> None:
        """In the order of the ids, so that two gateways never wait for each other in a circle. Moves no revision."""
        table = AdminApiKey if is_admin else ApiKey
        older = or_(table.last_used_at.is_(None), table.last_used_at < bindparam("at"))
        statement = (
            update(table).where(table.id == bindparam("key_id"), older).values(last_used_at=bindparam("at"))
        )
        rows = [{"key_id": key_id, "at": last_used[key_id]} for key_id in sorted(last_used)]
        await (await session.connection()).execute(statement, rows)

    async def pepper_use(self, session: ReadSession) -> Mapping[str, int]:
        """How many keys that work, or may work again, are stored under each pepper."""
        found: Counter[str] = Counter()
        for table in (ApiKey, AdminApiKey):
            query = (
                select(table.pepper_id, func.count())
                .where(
                    table.revoked_at.is_(None), or_(table.expires_at.is_(None), table.expires_at > func.now())
                )
                .group_by(table.pepper_id)
            )
            for pepper_id, count in await session.execute(query):
                found[pepper_id] += count
        return found

    async def put_limits(
        self, session: WriteSession, tenant_id: TenantId, id: str, scoped: ScopedLimits, at: datetime
    ) -> None:
        """One row per scope: a second one replaces the first."""
        values = {name: getattr(scoped.limits, name) for name in _LIMIT_FIELDS} | {"updated_at": at}
        scope = {"tenant_id": tenant_id, "key_id": scoped.key_id, "served_model": scoped.served_model}
        await session.execute(
            pg_insert(RateLimit)
            .values(id=id, **scope, **values)
            .on_conflict_do_update(
                index_elements=[RateLimit.tenant_id, RateLimit.key_id, RateLimit.served_model], set_=values
            )
        )


def _keys() -> Select[ApiKey, Tenant, ServiceAccount]:
    return (
        select(ApiKey, Tenant, ServiceAccount)
        .join(Tenant, Tenant.id == ApiKey.tenant_id)
        .outerjoin(
            ServiceAccount,
            (ServiceAccount.tenant_id == ApiKey.tenant_id) & (ServiceAccount.id == ApiKey.service_account_id),
        )
    )


def _key_row(
    key: ApiKey,
    tenant: Tenant,
    account: ServiceAccount | None,
    lineage_id: KeyId,
    limits: tuple[ScopedLimits, ...],
) -> KeyRow:
    return KeyRow(
        tenant_id=TenantId(key.tenant_id),
        id=KeyId(key.id),
        name=key.name,
        lineage_id=lineage_id,
        public_id=key.public_id,
        secret_hmac=key.secret_hmac,
        pepper_id=key.pepper_id,
        service_account_id=ServiceAccountId(account.id) if account is not None else None,
        scopes=frozenset(key.scopes),
        ip_allow_list=tuple(key.ip_allow_list),
        expires_at=key.expires_at,
        revoked_at=key.revoked_at,
        rotated_from=KeyId(key.rotated_from) if key.rotated_from is not None else None,
        owner_is_active=tenant.status == "active" and (account is None or account.deleted_at is None),
        fairness_weight=tenant.fairness_weight,
        cache_sharing_group=tenant.cache_sharing_group,
        is_idempotent=tenant.is_idempotent,
        limits=limits,
        user_id=UserId(key.user_id) if key.user_id is not None else None,
    )


def scoped_limits(row: RateLimit) -> ScopedLimits:
    return ScopedLimits(
        KeyId(row.key_id) if row.key_id is not None else None,
        row.served_model,
        LimitSet(**{name: getattr(row, name) for name in _LIMIT_FIELDS}),
    )
