"""All SQL of who administers. Lists are keyset-paged by id, which is time-ordered. Nothing here decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Select, delete, func, insert, or_, select, update
from sqlalchemy.dialects.postgresql import insert as pg_insert

from gateway.db import ReadSession, WriteSession
from gateway.ids import KeyId, TenantId, UserId
from gateway.sessions.models import UserIdentity, UserPassword
from gateway.tenancy.models import AdminApiKey, ApiKey, Invite, OrganizationUser, ProjectMember, Tenant
from gateway.tenancy.people.types import AdminKey, AdminKeyRow, InviteView, KeyOwner, Member, User
from gateway.tenancy.principal import ProjectRole, Role

__all__ = ["PeopleRepository"]

_LOCK = 7_466_011_208_423_518
_Session = ReadSession | WriteSession


class PeopleRepository:
    # Admin keys.

    async def admin_key_by_public_id(self, session: ReadSession, public_id: str) -> AdminKeyRow | None:
        """The door."""
        query = _admin_keys().where(AdminApiKey.public_id == public_id)
        found = (await session.execute(query)).one_or_none()
        if found is None:
            return None
        key, user = found
        row = _key_row(key, user)
        if user is None or "member" not in (key.role, user.role):
            return row
        return replace(row, projects=await self._memberships(session, user.id))

    async def lock(self, session: WriteSession) -> None:
        """Serialises what changes who is an owner, until the transaction ends."""
        await session.execute(select(func.pg_advisory_xact_lock(_LOCK)))

    async def admin_key_count(self, session: WriteSession) -> int:
        """That there ever were."""
        return await session.scalar(select(func.count()).select_from(AdminApiKey)) or 0

    async def owner_key_count(self, session: WriteSession, now: datetime) -> int:
        """Keys that can do everything, now and for ever."""
        query = (
            select(func.count())
            .select_from(AdminApiKey)
            .outerjoin(OrganizationUser, OrganizationUser.id == AdminApiKey.user_id)
            .where(
                AdminApiKey.role == "owner",
                AdminApiKey.revoked_at.is_(None),
                or_(AdminApiKey.expires_at.is_(None), AdminApiKey.expires_at > now),
                or_(
                    AdminApiKey.user_id.is_(None),
                    (OrganizationUser.role == "owner") & OrganizationUser.deleted_at.is_(None),
                ),
            )
        )
        return await session.scalar(query) or 0

    async def insert_admin_key(self, session: WriteSession, row: AdminKeyRow, name: str) -> bool:
        """False if the public part is taken; then nothing was written."""
        written = await session.scalar(
            pg_insert(AdminApiKey)
            .values(
                id=row.id,
                name=name,
                public_id=row.public_id,
                secret_hmac=row.secret_hmac,
                pepper_id=row.pepper_id,
                scopes=["admin"] if row.role == "owner" else [],
                role=row.role,
                user_id=row.user_id,
                ip_allow_list=list(row.ip_allow_list),
                expires_at=row.expires_at,
            )
            .on_conflict_do_nothing(index_elements=[AdminApiKey.public_id])
            .returning(AdminApiKey.id)
        )
        return written is not None

    async def admin_keys(
        self, session: ReadSession, after: str | None, limit: int, *, ascending: bool
    ) -> list[AdminKey]:
        order = AdminApiKey.id.asc() if ascending else AdminApiKey.id.desc()
        query = _admin_keys().where(AdminApiKey.revoked_at.is_(None)).order_by(order).limit(limit)
        if after is not None:
            query = query.where(AdminApiKey.id > after if ascending else AdminApiKey.id < after)
        return [_admin_key(*row) for row in await session.execute(query)]

    async def admin_key(self, session: _Session, key_id: KeyId) -> AdminKey | None:
        query = _admin_keys().where(AdminApiKey.id == key_id, AdminApiKey.revoked_at.is_(None))
        found = (await session.execute(query)).one_or_none()
        return _admin_key(*found) if found is not None else None

    async def revoke_admin_key(self, session: WriteSession, key_id: KeyId, at: datetime) -> None:
        await session.execute(update(AdminApiKey).where(AdminApiKey.id == key_id).values(revoked_at=at))

    async def keys_of(self, session: ReadSession, owners: Sequence[str], emails: Sequence[str]) -> set[str]:
        """The admin keys of users (by id, or by address) and the keys of service accounts (by id)."""
        administrators = (
            select(AdminApiKey.id)
            .join(OrganizationUser, OrganizationUser.id == AdminApiKey.user_id)
            .where(
                or_(
                    OrganizationUser.id.in_(owners),
                    OrganizationUser.email.in_([email.lower() for email in emails]),
                )
            )
        )
        accounts = select(ApiKey.id).where(ApiKey.service_account_id.in_(owners))
        return {*await session.scalars(administrators), *await session.scalars(accounts)}

    async def owners_of(self, session: ReadSession, key_ids: Sequence[str]) -> Mapping[str, KeyOwner]:
        """Whose each key is, admin keys and others, and who a user is; keys of nobody, and unknown ones, are left out."""
        administrators = (
            select(AdminApiKey.id, OrganizationUser.id, OrganizationUser.email)
            .join(OrganizationUser, OrganizationUser.id == AdminApiKey.user_id)
            .where(AdminApiKey.id.in_(key_ids))
        )
        accounts = select(ApiKey.id, ApiKey.service_account_id).where(
            ApiKey.id.in_(key_ids), ApiKey.service_account_id.is_not(None)
        )
        found = {
            key_id: KeyOwner("user", user_id, email)
            for key_id, user_id, email in await session.execute(administrators)
        }
        people = select(OrganizationUser.id, OrganizationUser.email).where(OrganizationUser.id.in_(key_ids))
        for user_id, email in await session.execute(people):
            found[user_id] = KeyOwner("user", user_id, email)
        for key_id, account_id in await session.execute(accounts):
            found[key_id] = KeyOwner("service_account", str(account_id))
        return found

    async def project_names(self, session: ReadSession, tenant_ids: Sequence[str]) -> Mapping[str, str]:
        rows = await session.execute(select(Tenant.id, Tenant.name).where(Tenant.id.in_(tenant_ids)))
        return {row.id: row.name for row in rows}

    # Users.

    async def insert_user(self, session: WriteSession, user: User) -> bool:
        """False if a user has that address already."""
        written = await session.scalar(
            pg_insert(OrganizationUser)
            .values(id=user.id, email=user.email, name=user.name, role=user.role, created_at=user.created_at)
            .on_conflict_do_nothing()
            .returning(OrganizationUser.id)
        )
        return written is not None

    async def users(
        self, session: ReadSession, after: str | None, limit: int, emails: Sequence[str]
    ) -> list[User]:
        query = select(OrganizationUser).where(OrganizationUser.deleted_at.is_(None))
        if after is not None:
            query = query.where(OrganizationUser.id < after)
        if emails:
            query = query.where(OrganizationUser.email.in_([email.lower() for email in emails]))
        return [
            _user(row)
            for row in await session.scalars(query.order_by(OrganizationUser.id.desc()).limit(limit))
        ]

    async def user(self, session: _Session, user_id: str) -> User | None:
        query = select(OrganizationUser).where(
            OrganizationUser.id == user_id, OrganizationUser.deleted_at.is_(None)
        )
        row = (await session.scalars(query)).one_or_none()
        return _user(row) if row is not None else None

    async def lock_user(self, session: WriteSession, user_id: str) -> None:
        """Nobody else changes them until the transaction ends."""
        await session.execute(
            select(OrganizationUser.id).where(OrganizationUser.id == user_id).with_for_update()
        )

    async def user_by_email(self, session: _Session, email: str) -> User | None:
        query = select(OrganizationUser).where(
            OrganizationUser.email == email.lower(), OrganizationUser.deleted_at.is_(None)
        )
        row = (await session.scalars(query)).one_or_none()
        return _user(row) if row is not None else None

    async def set_user(self, session: WriteSession, user: User) -> None:
        changed = {"name": user.name, "role": user.role, "email": user.email}
        await session.execute(update(OrganizationUser).where(OrganizationUser.id == user.id).values(changed))

    async def delete_user(self, session: WriteSession, user_id: UserId, at: datetime) -> None:
        """The row stays, for the audit log's sake, without the address; memberships and what they sign in with go."""
        await session.execute(delete(UserPassword).where(UserPassword.user_id == user_id))
        await session.execute(delete(UserIdentity).where(UserIdentity.user_id == user_id))
        await session.execute(delete(ProjectMember).where(ProjectMember.user_id == user_id))
        await session.execute(
            update(OrganizationUser).where(OrganizationUser.id == user_id).values(deleted_at=at, email=None)
        )

    async def projects_of(
        self, session: ReadSession, user_ids: Sequence[str]
    ) -> Mapping[str, list[tuple[str, str, str]]]:
        """By user: id, name and role of each project that they are a member of."""
        query = (
            select(ProjectMember.user_id, Tenant.id, Tenant.name, ProjectMember.role)
            .join(Tenant, Tenant.id == ProjectMember.tenant_id)
            .where(ProjectMember.user_id.in_(user_ids), Tenant.status == "active")
            .order_by(Tenant.id)
        )
        found: dict[str, list[tuple[str, str, str]]] = {user_id: [] for user_id in user_ids}
        for user_id, *project in await session.execute(query):
            found[user_id].append((project[0], project[1], project[2]))
        return found

    # Members of projects.

    async def put_member(
        self, session: WriteSession, tenant_id: TenantId, user_id: UserId, role: ProjectRole, at: datetime
    ) -> None:
        await session.execute(
            pg_insert(ProjectMember)
            .values(tenant_id=tenant_id, user_id=user_id, role=role, added_at=at)
            .on_conflict_do_update(
                index_elements=[ProjectMember.tenant_id, ProjectMember.user_id], set_={"role": role}
            )
        )

    async def members(
        self, session: ReadSession, tenant_id: TenantId, after: str | None, limit: int
    ) -> list[Member]:
        query = _members(tenant_id).order_by(ProjectMember.user_id.desc()).limit(limit)
        if after is not None:
            query = query.where(ProjectMember.user_id < after)
        return [_member(*row) for row in await session.execute(query)]

    async def member(self, session: _Session, tenant_id: TenantId, user_id: str) -> Member | None:
        found = (
            await session.execute(_members(tenant_id).where(ProjectMember.user_id == user_id))
        ).one_or_none()
        return _member(*found) if found is not None else None

    async def delete_member(self, session: WriteSession, tenant_id: TenantId, user_id: UserId) -> None:
        await session.execute(
            delete(ProjectMember).where(
                ProjectMember.tenant_id == tenant_id, ProjectMember.user_id == user_id
            )
        )

    async def known_projects(self, session: WriteSession, tenant_ids: Sequence[str]) -> set[str]:
        """Those of them that exist and are not archived."""
        query = select(Tenant.id).where(Tenant.id.in_(tenant_ids), Tenant.status == "active")
        return set(await session.scalars(query))

    # Invites.

    async def insert_invite(self, session: WriteSession, invite: InviteView) -> None:
        await session.execute(
            insert(Invite).values(
                id=invite.id,
                email=invite.email,
                role=invite.role,
                projects=dict(invite.projects),
                created_at=invite.created_at,
                expires_at=invite.expires_at,
            )
        )

    async def invites(self, session: ReadSession, after: str | None, limit: int) -> list[InviteView]:
        query = select(Invite).order_by(Invite.id.desc()).limit(limit)
        if after is not None:
            query = query.where(Invite.id < after)
        return [_invite(row) for row in await session.scalars(query)]

    async def invite(self, session: ReadSession, invite_id: str) -> InviteView | None:
        row = await session.get(Invite, invite_id)
        return _invite(row) if row is not None else None

    async def locked_invite(self, session: WriteSession, invite_id: str) -> InviteView | None:
        query = select(Invite).where(Invite.id == invite_id).with_for_update()
        row = (await session.scalars(query)).one_or_none()
        return _invite(row) if row is not None else None

    async def set_invite_token(self, session: WriteSession, invite_id: str, token_hash: bytes) -> None:
        await session.execute(update(Invite).where(Invite.id == invite_id).values(token_hash=token_hash))

    async def invite_by_token(self, session: ReadSession, token_hash: bytes) -> InviteView | None:
        row = (await session.scalars(select(Invite).where(Invite.token_hash == token_hash))).one_or_none()
        return _invite(row) if row is not None else None

    async def accept_invite(self, session: WriteSession, invite_id: str, at: datetime) -> None:
        await session.execute(update(Invite).where(Invite.id == invite_id).values(accepted_at=at))

    async def delete_invite(self, session: WriteSession, invite_id: str) -> None:
        await session.execute(delete(Invite).where(Invite.id == invite_id))

    async def _memberships(self, session: ReadSession, user_id: str) -> Mapping[TenantId, ProjectRole]:
        query = select(ProjectMember.tenant_id, ProjectMember.role).where(ProjectMember.user_id == user_id)
        return {
            TenantId(tenant_id): "owner" if role == "owner" else "member"
            for tenant_id, role in await session.execute(query)
        }


def _admin_keys() -> Select[AdminApiKey, OrganizationUser]:
    return select(AdminApiKey, OrganizationUser).outerjoin(
        OrganizationUser, OrganizationUser.id == AdminApiKey.user_id
    )


def _members(tenant_id: TenantId) -> Select[ProjectMember, OrganizationUser]:
    return (
        select(ProjectMember, OrganizationUser)
        .join(OrganizationUser, OrganizationUser.id == ProjectMember.user_id)
        .where(ProjectMember.tenant_id == tenant_id)
    )


def _key_row(key: AdminApiKey, user: OrganizationUser | None) -> AdminKeyRow:
    return AdminKeyRow(
        KeyId(key.id),
        key.public_id,
        key.secret_hmac,
        key.pepper_id,
        _role(key.role),
        key.expires_at,
        key.revoked_at,
        UserId(user.id) if user is not None else None,
        _role(user.role) if user is not None else None,
        user is None or user.deleted_at is None,
        tuple(key.ip_allow_list),
    )


def _admin_key(key: AdminApiKey, user: OrganizationUser | None) -> AdminKey:
    return AdminKey(
        KeyId(key.id),
        key.name,
        key.public_id,
        _role(key.role),
        _user(user) if user is not None else None,
        tuple(key.ip_allow_list),
        key.created_at,
        key.expires_at,
        key.last_used_at,
    )


def _user(row: OrganizationUser) -> User:
    return User(UserId(row.id), row.email, row.name, _role(row.role), row.created_at)


def _member(row: ProjectMember, user: OrganizationUser) -> Member:
    role: ProjectRole = "owner" if row.role == "owner" else "member"
    return Member(TenantId(row.tenant_id), _user(user), role, row.added_at)


def _invite(row: Invite) -> InviteView:
    return InviteView(
        row.id, row.email, _role(row.role), row.projects, row.created_at, row.expires_at, row.accepted_at
    )


def _role(text: str) -> Role:
    role: Role = text  # type: ignore[assignment]  # the tables' check constraints list the same values
    return role
