"""Users, members, invites and admin keys as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from gateway.ids import KeyId, TenantId, UserId
from gateway.tenancy.principal import ProjectRole, Role

__all__ = ["AdminKey", "AdminKeyRow", "InviteView", "KeyOwner", "Member", "User"]


@dataclass(frozen=True, slots=True)
class User:
    id: UserId
    email: str | None
    name: str
    role: Role
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Member:
    """A user in one project."""

    tenant_id: TenantId
    user: User
    role: ProjectRole
    added_at: datetime


@dataclass(frozen=True, slots=True)
class KeyOwner:
    kind: Literal["user", "service_account"]
    id: str
    email: str | None = None


@dataclass(frozen=True, slots=True)
class InviteView:
    id: str
    email: str
    role: Role
    projects: Mapping[str, ProjectRole]
    created_at: datetime
    expires_at: datetime
    accepted_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class AdminKey:
    """An admin key as lists show it."""

    id: KeyId
    name: str
    public_id: str
    role: Role
    user: User | None
    ip_allow_list: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True)
class AdminKeyRow:
    """An admin key with everything that a request of it needs to know."""

    id: KeyId
    public_id: str
    secret_hmac: bytes
    pepper_id: str
    role: Role
    expires_at: datetime | None
    revoked_at: datetime | None
    user_id: UserId | None = None
    user_role: Role | None = None
    """None without a user."""
    user_is_active: bool = True
    ip_allow_list: tuple[str, ...] = ()
    projects: Mapping[TenantId, ProjectRole] = field(default_factory=dict)
