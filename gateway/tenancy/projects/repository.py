"""The admin API's readings of tenants, service accounts and keys, and the tenant's model permission.

Every list is keyset-paged by id, newest first (ids are time-ordered). Holds no secret and no rule: changes of
tenants and keys are tenancy/service.py's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Select, delete, func, not_, select, update
from sqlalchemy.dialects.postgresql import insert

from gateway.db import ReadSession, WriteSession
from gateway.ids import KeyId, TenantId
from gateway.tenancy.models import (
    ApiKey,
    ModelPermission,
    OrganizationUser,
    RateLimit,
    ServiceAccount,
    Tenant,
)
from gateway.tenancy.principal import ScopedLimits
from gateway.tenancy.repository import scoped_limits

__all__ = [
    "AccountView",
    "KeyView",
    "LimitView",
    "PermissionView",
    "ProjectRepository",
    "ProjectView",
    "UserView",
]


@dataclass(frozen=True, slots=True)
class ProjectView:
    id: str
    name: str
    status: str
    created_at: datetime
    archived_at: datetime | None
    fairness_weight: int = 1


@dataclass(frozen=True, slots=True)
class AccountView:
    id: str
    name: str
    role: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class UserView:
    id: str
    name: str
    email: str | None
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
    ip_allow_list: tuple[str, ...]
    account: AccountView | None
    has_access: bool
    """Its service account, if it has one, is not deleted."""
    user: UserView | None
    """Whose requests from the console it stands for."""


@dataclass(frozen=True, slots=True)
class LimitView:
    """The limits of one scope, under the id of their row."""

    id: str
    scoped: ScopedLimits
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class PermissionView:
    mode: str
    model_ids: tuple[str, ...]


class ProjectRepository:
    async def projects(
        self,
        session: ReadSession,
        after: str | None,
        limit: int,
        include_archived: bool,
        only: Sequence[str] | None = None,
    ) -> list[ProjectView]:
        """`only`: those of them; None for all."""
        query = select(Tenant).order_by(Tenant.id.desc()).limit(limit)
        if after is not None:
            query = query.where(Tenant.id < after)
        if only is not None:
            query = query.where(Tenant.id.in_(only))
        if not include_archived:
            query = query.where(Tenant.status == "active")
        return [_project(row) for row in await session.scalars(query)]

    async def project(self, session: ReadSession, tenant_id: TenantId) -> ProjectView | None:
        row = await session.get(Tenant, tenant_id)
        return _project(row) if row is not None else None

    async def locked(self, session: WriteSession, tenant_id: TenantId) -> ProjectView | None:
        row = (
            await session.scalars(select(Tenant).where(Tenant.id == tenant_id).with_for_update())
        ).one_or_none()
        return _project(row) if row is not None else None

    async def set_project(
        self, session: WriteSession, tenant_id: TenantId, name: str, fairness_weight: int
    ) -> None:
        changed = {"name": name, "fairness_weight": fairness_weight, "updated_at": func.now()}
        await session.execute(update(Tenant).where(Tenant.id == tenant_id).values(changed))

    async def is_idempotent(self, session: ReadSession, tenant_id: TenantId) -> bool:
        """Whether it wants idempotency keys to be honoured."""
        return (await session.scalars(select(Tenant.is_idempotent).where(Tenant.id == tenant_id))).one()

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

    async def account(
        self, session: ReadSession | WriteSession, tenant_id: TenantId, account_id: str
    ) -> AccountView | None:
        query = select(ServiceAccount).where(
            ServiceAccount.tenant_id == tenant_id,
            ServiceAccount.id == account_id,
            ServiceAccount.deleted_at.is_(None),
        )
        row = (await session.scalars(query)).one_or_none()
        return _account(row) if row is not None else None

    async def set_account(self, session: WriteSession, tenant_id: TenantId, account: AccountView) -> None:
        changed = {"name": account.name, "role": account.role}
        await session.execute(
            update(ServiceAccount)
            .where(ServiceAccount.tenant_id == tenant_id, ServiceAccount.id == account.id)
            .values(changed)
        )

    async def delete_account(
        self, session: WriteSession, tenant_id: TenantId, account_id: str, at: datetime
    ) -> None:
        await session.execute(
            update(ServiceAccount)
            .where(ServiceAccount.tenant_id == tenant_id, ServiceAccount.id == account_id)
            .values(deleted_at=at)
        )

    async def keys(
        self,
        session: ReadSession,
        tenant_id: TenantId,
        after: str | None,
        limit: int,
        has_access: bool | None = None,
    ) -> list[KeyView]:
        """Those that are not revoked; `has_access`: of them, whose owner has access, or has it no more."""
        query = _live_keys(tenant_id).order_by(ApiKey.id.desc()).limit(limit)
        if has_access is not None:
            lost = ServiceAccount.deleted_at.is_not(None)
            query = query.where(not_(lost) if has_access else lost)
        if after is not None:
            query = query.where(ApiKey.id < after)
        return [_key(*row) for row in await session.execute(query)]

    async def key(self, session: ReadSession, tenant_id: TenantId, key_id: KeyId) -> KeyView | None:
        found = (await session.execute(_live_keys(tenant_id).where(ApiKey.id == key_id))).one_or_none()
        return _key(*found) if found is not None else None

    async def permission(self, session: ReadSession, tenant_id: TenantId) -> PermissionView | None:
        row = await session.get(ModelPermission, tenant_id)
        return PermissionView(row.mode, tuple(row.model_ids)) if row is not None else None

    async def limits(
        self, session: ReadSession, tenant_id: TenantId, after: str | None, limit: int
    ) -> list[LimitView]:
        query = select(RateLimit).where(RateLimit.tenant_id == tenant_id).order_by(RateLimit.id.desc())
        if after is not None:
            query = query.where(RateLimit.id < after)
        return [_limit(row) for row in await session.scalars(query.limit(limit))]

    async def limits_of_models(
        self, session: ReadSession | WriteSession, tenant_id: TenantId
    ) -> dict[str | None, LimitView]:
        """By served name, and the whole project's under None; those of single keys are not among them."""
        query = select(RateLimit).where(RateLimit.tenant_id == tenant_id, RateLimit.key_id.is_(None))
        return {row.served_model: _limit(row) for row in await session.scalars(query)}

    async def delete_limits(
        self, session: WriteSession, tenant_id: TenantId, limit_id: str
    ) -> LimitView | None:
        """What was there."""
        query = select(RateLimit).where(RateLimit.tenant_id == tenant_id, RateLimit.id == limit_id)
        row = (await session.scalars(query.with_for_update())).one_or_none()
        if row is None:
            return None
        gone = _limit(row)
        await session.execute(
            delete(RateLimit).where(RateLimit.tenant_id == tenant_id, RateLimit.id == limit_id)
        )
        return gone

    async def locked_permission(self, session: WriteSession, tenant_id: TenantId) -> PermissionView | None:
        query = select(ModelPermission).where(ModelPermission.tenant_id == tenant_id).with_for_update()
        row = (await session.scalars(query)).one_or_none()
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

    async def delete_permission(self, session: WriteSession, tenant_id: TenantId) -> None:
        await session.execute(delete(ModelPermission).where(ModelPermission.tenant_id == tenant_id))


def _project(row: Tenant) -> ProjectView:
    return ProjectView(row.id, row.name, row.status, row.created_at, row.archived_at, row.fairness_weight)


def _account(row: ServiceAccount) -> AccountView:
    return AccountView(row.id, row.name, row.role, row.created_at)


def _live_keys(tenant_id: TenantId) -> Select[ApiKey, ServiceAccount, OrganizationUser]:
    """Each with its service account or its person, if it has one."""
    is_its = (ServiceAccount.tenant_id == ApiKey.tenant_id) & (ServiceAccount.id == ApiKey.service_account_id)
    return (
        select(ApiKey, ServiceAccount, OrganizationUser)
        .outerjoin(ServiceAccount, is_its)
        .outerjoin(OrganizationUser, OrganizationUser.id == ApiKey.user_id)
        .where(ApiKey.tenant_id == tenant_id, ApiKey.revoked_at.is_(None))
    )


def _key(row: ApiKey, account: ServiceAccount | None, user: OrganizationUser | None) -> KeyView:
    return KeyView(
        row.id,
        row.name,
        row.public_id,
        row.created_at,
        row.expires_at,
        row.revoked_at,
        row.last_used_at,
        tuple(row.scopes),
        tuple(row.ip_allow_list),
        _account(account) if account is not None else None,
        account is None or account.deleted_at is None,
        UserView(user.id, user.name, user.email, user.created_at) if user is not None else None,
    )


def _limit(row: RateLimit) -> LimitView:
    return LimitView(row.id, scoped_limits(row), row.updated_at)
