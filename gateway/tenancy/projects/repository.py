"""The admin API's readings of tenants, service accounts and keys, and the tenant's model permission.

Every list is keyset-paged by id, newest first (ids are time-ordered). Holds no secret and no rule: changes of
tenants and keys are tenancy/service.py's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from gateway.db import ReadSession, WriteSession
from gateway.ids import KeyId, TenantId
from gateway.tenancy.models import ApiKey, ModelPermission, ServiceAccount, Tenant

__all__ = ["AccountView", "KeyView", "PermissionView", "ProjectRepository", "ProjectView"]


@dataclass(frozen=True, slots=True)
class ProjectView:
    id: str
    name: str
    status: str
    created_at: datetime
    archived_at: datetime | None


@dataclass(frozen=True, slots=True)
class AccountView:
    id: str
    name: str
    role: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class KeyView:
    id: str
    name: str
    public_id: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    scopes: tuple[str, ...]
    account: AccountView | None


@dataclass(frozen=True, slots=True)
class PermissionView:
    mode: str
    model_ids: tuple[str, ...]


class ProjectRepository:
    async def projects(
        self, session: ReadSession, after: str | None, limit: int, include_archived: bool
    ) -> list[ProjectView]:
        query = select(Tenant).order_by(Tenant.id.desc()).limit(limit)
        if after is not None:
            query = query.where(Tenant.id < after)
        if not include_archived:
            query = query.where(Tenant.status == "active")
        return [_project(row) for row in await session.scalars(query)]

    async def project(self, session: ReadSession, tenant_id: TenantId) -> ProjectView | None:
        row = await session.get(Tenant, tenant_id)
        return _project(row) if row is not None else None

    async def is_idempotent(self, session: ReadSession, tenant_id: TenantId) -> bool | None:
        """Whether it wants idempotency keys to be honoured; None if there is no such tenant."""
        row = await session.get(Tenant, tenant_id)
        return row.is_idempotent if row is not None else None

    async def set_idempotent(self, session: WriteSession, tenant_id: TenantId, value: bool) -> None:
        changed = {"is_idempotent": value, "updated_at": func.now()}
        await session.execute(update(Tenant).where(Tenant.id == tenant_id).values(changed))

    async def accounts(
        self, session: ReadSession, tenant_id: TenantId, after: str | None, limit: int
    ) -> list[AccountView]:
        query = (
            select(ServiceAccount)
            .where(ServiceAccount.tenant_id == tenant_id, ServiceAccount.deleted_at.is_(None))
            .order_by(ServiceAccount.id.desc())
            .limit(limit)
        )
        if after is not None:
            query = query.where(ServiceAccount.id < after)
        return [_account(row) for row in await session.scalars(query)]

    async def keys(
        self, session: ReadSession, tenant_id: TenantId, after: str | None, limit: int
    ) -> list[KeyView]:
        """Those that are not revoked."""
        query = (
            select(ApiKey, ServiceAccount)
            .outerjoin(
                ServiceAccount,
                (ServiceAccount.tenant_id == ApiKey.tenant_id)
                & (ServiceAccount.id == ApiKey.service_account_id),
            )
            .where(ApiKey.tenant_id == tenant_id, ApiKey.revoked_at.is_(None))
            .order_by(ApiKey.id.desc())
            .limit(limit)
        )
        if after is not None:
            query = query.where(ApiKey.id < after)
        return [_key(key, account) for key, account in await session.execute(query)]

    async def key(self, session: ReadSession, tenant_id: TenantId, key_id: KeyId) -> KeyView | None:
        query = (
            select(ApiKey, ServiceAccount)
            .outerjoin(
                ServiceAccount,
                (ServiceAccount.tenant_id == ApiKey.tenant_id)
                & (ServiceAccount.id == ApiKey.service_account_id),
            )
            .where(ApiKey.tenant_id == tenant_id, ApiKey.id == key_id, ApiKey.revoked_at.is_(None))
        )
        found = (await session.execute(query)).one_or_none()
        return _key(*found) if found is not None else None

    async def permission(self, session: ReadSession, tenant_id: TenantId) -> PermissionView | None:
        row = await session.get(ModelPermission, tenant_id)
        return PermissionView(row.mode, tuple(row.model_ids)) if row is not None else None

    async def put_permission(
        self, session: WriteSession, tenant_id: TenantId, mode: str, model_ids: Sequence[str]
    ) -> None:
        values = {"mode": mode, "model_ids": sorted(set(model_ids)), "updated_at": func.now()}
        await session.execute(
            insert(ModelPermission)
            .values(tenant_id=tenant_id, **values)
            .on_conflict_do_update(index_elements=[ModelPermission.tenant_id], set_=values)
        )

    async def delete_permission(self, session: WriteSession, tenant_id: TenantId) -> bool:
        statement = delete(ModelPermission).where(ModelPermission.tenant_id == tenant_id)
        gone = await session.execute(statement.returning(ModelPermission.tenant_id))
        return gone.first() is not None


def _project(row: Tenant) -> ProjectView:
    return ProjectView(row.id, row.name, row.status, row.created_at, row.archived_at)


def _account(row: ServiceAccount) -> AccountView:
    return AccountView(row.id, row.name, row.role, row.created_at)


def _key(row: ApiKey, account: ServiceAccount | None) -> KeyView:
    return KeyView(
        row.id,
        row.name,
        row.public_id,
        row.created_at,
        row.expires_at,
        row.revoked_at,
        row.last_used_at,
        tuple(row.scopes),
        _account(account) if account is not None else None,
    )
