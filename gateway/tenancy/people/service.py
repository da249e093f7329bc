"""Changes of who administers: rules, and one audit row in the same transaction.

The caller opens the transaction and commits it. Whatever is changed, somebody stays who can do everything: the last
key of an owner cannot go. It does not know HTTP, nor what each role may do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from gateway.audit.repository import Actor, AuditEntry, AuditRepository
from gateway.clock import Clock
from gateway.db import WriteSession
from gateway.errors import Conflict, InvalidValue, NotFound
from gateway.ids import Entropy, IdSource, KeyId, TenantId, UserId
from gateway.tenancy.keys import Peppers
from gateway.tenancy.people.repository import PeopleRepository
from gateway.tenancy.people.types import AdminKeyRow, InviteView, Member, User
from gateway.tenancy.principal import ProjectRole, Role
from gateway.tenancy.service import IssuedKey, check_name, check_networks, issue

__all__ = ["INVITE_DAYS", "AdminKeyOptions", "PeopleService"]

INVITE_DAYS = 7


@dataclass(frozen=True, slots=True)
class AdminKeyOptions:
    """What an admin key may do and from where, until when, and whose it is."""

    role: Role = "owner"
    user_id: UserId | None = None
    expires_at: datetime | None = None
    ip_allow_list: tuple[str, ...] = ()


class PeopleService:
    def __init__(
        self, audit: AuditRepository, peppers: Peppers, clock: Clock, ids: IdSource, entropy: Entropy
    ) -> None:
        self.repository = PeopleRepository()
        self._audit = audit
        self._peppers = peppers
        self._clock = clock
        self._ids = ids
        self._entropy = entropy

    # Admin keys.

    async def create_admin_key(
        self, session: WriteSession, actor: Actor, name: str, options: AdminKeyOptions
    ) -> IssuedKey:
        check_name(name)
        check_networks(options.ip_allow_list)
        if options.user_id is not None:
            await self._require_user(session, options.user_id)
        elif options.role == "member":
            raise InvalidValue(
                "A key with the role of a member needs a user, whose projects it sees.", "user_id"
            )
        issued = await self._issue(session, name, options)
        details = {"after": {"name": name, "masked": issued.masked, **_facts(options)}}
        await self._record(session, actor, "admin_api_key.created", ("admin_api_key", issued.id), details)
        return issued

    async def delete_admin_key(self, session: WriteSession, actor: Actor, key_id: KeyId) -> None:
        """Takes effect on every replica within 2 s."""
        await self.repository.lock(session)
        key = await self.repository.admin_key(session, key_id)
        if key is None:
            raise NotFound("No such admin API key.")
        await self.repository.revoke_admin_key(session, key_id, self._clock.now())
        await self._require_owner(session)
        details = {"before": {"name": key.name, "role": key.role}}
        await self._record(session, actor, "admin_api_key.deleted", ("admin_api_key", key_id), details)

    # Users.

    async def create_user(
        self, session: WriteSession, actor: Actor, email: str | None, name: str, role: Role
    ) -> User:
        check_name(name)
        address = email.lower() if email is not None else None
        user = User(UserId(self._ids.new("user")), address, name, role, self._clock.now())
        if not await self.repository.insert_user(session, user):
            raise Conflict("There is a user with this address already.")
        await self._record(session, actor, "user.added", ("user", user.id), {"after": _user_facts(user)})
        return user

    async def update_user(
        self, session: WriteSession, actor: Actor, user_id: str, role: Role | None, name: str | None
    ) -> User:
        await self.repository.lock(session)
        before = await self._require_user(session, user_id)
        if name is not None:
            check_name(name)
        after = replace(before, role=role or before.role, name=name or before.name)
        if after != before:
            await self.repository.set_user(session, after)
            await self._require_owner(session)
            details = {"before": _user_facts(before), "after": _user_facts(after)}
            await self._record(session, actor, "user.updated", ("user", user_id), details)
        return after

    async def delete_user(self, session: WriteSession, actor: Actor, user_id: str) -> None:
        """Their keys stop working within 2 s."""
        await self.repository.lock(session)
        user = await self._require_user(session, user_id)
        await self.repository.delete_user(session, user.id, self._clock.now())
        await self._require_owner(session)
        details = {"before": {"name": user.name, "role": user.role}}
        await self._record(session, actor, "user.deleted", ("user", user_id), details)

    # Members of projects.

    async def add_member(
        self, session: WriteSession, actor: Actor, tenant_id: TenantId, user: User, role: ProjectRole
    ) -> Member:
        if await self.repository.member(session, tenant_id, user.id) is not None:
            raise Conflict("The user is a member of the project already.")
        now = self._clock.now()
        await self.repository.put_member(session, tenant_id, user.id, role, now)
        details = {"after": {"project_role": role}}
        await self._record(session, actor, "project_user.added", ("user", user.id), details, tenant_id)
        return Member(tenant_id, user, role, now)

    async def update_member(
        self, session: WriteSession, actor: Actor, tenant_id: TenantId, user_id: str, role: ProjectRole
    ) -> Member:
        before = await self._require_member(session, tenant_id, user_id)
        if before.role != role:
            await self.repository.put_member(session, tenant_id, before.user.id, role, before.added_at)
            details = {"before": {"project_role": before.role}, "after": {"project_role": role}}
            await self._record(session, actor, "project_user.updated", ("user", user_id), details, tenant_id)
        return replace(before, role=role)

    async def remove_member(
        self, session: WriteSession, actor: Actor, tenant_id: TenantId, user_id: str
    ) -> None:
        before = await self._require_member(session, tenant_id, user_id)
        await self.repository.delete_member(session, tenant_id, before.user.id)
        details = {"before": {"project_role": before.role}}
        await self._record(session, actor, "project_user.deleted", ("user", user_id), details, tenant_id)

    # Invites.

    async def invite(
        self, session: WriteSession, actor: Actor, email: str, role: Role, projects: Mapping[str, ProjectRole]
    ) -> InviteView:
        await self._require_projects(session, list(projects))
        if await self.repository.user_by_email(session, email) is not None:
            raise Conflict("There is a user with this address already.")
        now = self._clock.now()
        ends = now + timedelta(days=INVITE_DAYS)
        invite = InviteView(self._ids.new("invite"), email.lower(), role, projects, now, ends)
        await self.repository.insert_invite(session, invite)
        details = {"after": {"email": invite.email, "role": role, "projects": dict(projects)}}
        await self._record(session, actor, "invite.sent", ("invite", invite.id), details)
        return invite

    async def accept_invite(self, session: WriteSession, actor: Actor, invite_id: str, name: str) -> User:
        """Makes the user, with the role and the memberships that the invite names, once."""
        invite = await self.repository.locked_invite(session, invite_id)
        if invite is None:
            raise NotFound("No such invite.")
        now = self._clock.now()
        if invite.accepted_at is not None or invite.expires_at <= now:
            raise Conflict("The invite is accepted or expired.")
        user = await self.create_user(session, actor, invite.email, name, invite.role)
        for project_id in await self.repository.known_projects(session, list(invite.projects)):
            role = invite.projects[project_id]
            await self.add_member(session, actor, TenantId(project_id), user, role)
        await self.repository.accept_invite(session, invite_id, now)
        details = {"after": {"user_id": user.id}}
        await self._record(session, actor, "invite.accepted", ("invite", invite_id), details)
        return user

    async def delete_invite(self, session: WriteSession, actor: Actor, invite_id: str) -> None:
        invite = await self.repository.locked_invite(session, invite_id)
        if invite is None:
            raise NotFound("No such invite.")
        if invite.accepted_at is not None:
            raise Conflict("The invite is accepted: delete the user instead.")
        await self.repository.delete_invite(session, invite_id)
        details = {"before": {"role": invite.role}}
        await self._record(session, actor, "invite.deleted", ("invite", invite_id), details)

    async def _issue(self, session: WriteSession, name: str, options: AdminKeyOptions) -> IssuedKey:
        key_id = KeyId(self._ids.new("key"))

        async def write(public_id: str, pepper_id: str, secret_hmac: bytes) -> bool:
            row = AdminKeyRow(
                key_id,
                public_id,
                secret_hmac,
                pepper_id,
                options.role,
                options.expires_at,
                None,
                options.user_id,
                ip_allow_list=options.ip_allow_list,
            )
            return await self.repository.insert_admin_key(session, row, name)

        return await issue(self._peppers, self._entropy, key_id, write)

    async def _require_user(self, session: WriteSession, user_id: str) -> User:
        user = await self.repository.user(session, user_id)
        if user is None:
            raise NotFound("No such user.")
        return user

    async def _require_member(self, session: WriteSession, tenant_id: TenantId, user_id: str) -> Member:
        member = await self.repository.member(session, tenant_id, user_id)
        if member is None:
            raise NotFound("No such user in this project.")
        return member

    async def _require_owner(self, session: WriteSession) -> None:
        """After the change: without an owner's key nobody could ever make another one."""
        if not await self.repository.owner_key_count(session, self._clock.now()):
            raise Conflict("This is the last key of an owner: make another one first.")

    async def _require_projects(self, session: WriteSession, project_ids: Sequence[str]) -> None:
        if set(project_ids) - await self.repository.known_projects(session, project_ids):
            raise InvalidValue("There is no such project.", "projects")

    async def _record(
        self,
        session: WriteSession,
        actor: Actor,
        action: str,
        resource: tuple[str, str],
        details: Mapping[str, Any],
        tenant_id: TenantId | None = None,
    ) -> None:
        await self._audit.append(session, actor, AuditEntry(action, *resource, tenant_id, details))


def _facts(options: AdminKeyOptions) -> Mapping[str, Any]:
    return {
        "role": options.role,
        "user_id": options.user_id,
        "expires_at": options.expires_at.isoformat() if options.expires_at else None,
        "ip_allow_list": list(options.ip_allow_list),
    }


def _user_facts(user: User) -> Mapping[str, Any]:
    return {"name": user.name, "email": user.email, "role": user.role}
