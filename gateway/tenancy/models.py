"""Tables of who may call: tenants, service accounts, keys, model permissions, rate limits; and of who administers:
the organisation's users, their memberships of projects, invites, admin keys.

Tenant-owned rows have the composite key (tenant_id, id), so that no foreign key can cross tenants. Keys are
stored as an HMAC only. A change here bumps `config_revision` by trigger.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from gateway.db import Base

__all__ = [
    "AdminApiKey",
    "ApiKey",
    "Invite",
    "ModelPermission",
    "OrganizationUser",
    "ProjectMember",
    "RateLimit",
    "ServiceAccount",
    "Tenant",
]

_NOW = text("now()")
_ROLES = "role IN ('owner', 'admin', 'billing', 'viewer', 'member')"


class Tenant(Base):
    """What the OpenAI API calls a project."""

    __tablename__ = "tenant"
    __table_args__ = (
        CheckConstraint("status IN ('active', 'archived')", name="status"),
        CheckConstraint("fairness_weight BETWEEN 1 AND 1000", name="fairness_weight"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    status: Mapped[str] = mapped_column(server_default="active")
    fairness_weight: Mapped[int] = mapped_column(Integer, server_default="1")
    cache_sharing_group: Mapped[str | None]
    # Opt-in: answers are stored, sealed, for as long as their keys are.
    is_idempotent: Mapped[bool] = mapped_column(Boolean, server_default=text("false"))
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    updated_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    archived_at: Mapped[datetime | None]


class ServiceAccount(Base):
    __tablename__ = "service_account"
    __table_args__ = (
        UniqueConstraint("id"),
        CheckConstraint("role IN ('owner', 'member', 'none')", name="role"),
    )

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenant.id"), primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    role: Mapped[str] = mapped_column(server_default="member")
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    deleted_at: Mapped[datetime | None]


class ApiKey(Base):
    """A tenant's key. `public_id` finds the row, `secret_hmac` (under pepper `pepper_id`) proves the caller.

    Rotation makes a successor (`rotated_from` on the new row, `rotation_key` makes it idempotent) and sets
    `expires_at` of the old row to the end of its grace period.
    """

    __tablename__ = "api_key"
    __table_args__ = (
        UniqueConstraint("id"),
        UniqueConstraint("public_id"),
        UniqueConstraint("tenant_id", "rotated_from", "rotation_key"),
        ForeignKeyConstraint(
            ["tenant_id", "service_account_id"], ["service_account.tenant_id", "service_account.id"]
        ),
        ForeignKeyConstraint(["tenant_id", "rotated_from"], ["api_key.tenant_id", "api_key.id"]),
        Index(
            "ix_api_key_expires_at",
            "expires_at",
            postgresql_where=text("expires_at IS NOT NULL AND revoked_at IS NULL"),
        ),
        Index(
            "uq_api_key_user_id",
            "tenant_id",
            "user_id",
            unique=True,
            postgresql_where=text("user_id IS NOT NULL AND revoked_at IS NULL"),
        ),
        CheckConstraint("octet_length(secret_hmac) = 32", name="secret_hmac"),
    )

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenant.id"), primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    public_id: Mapped[str]
    secret_hmac: Mapped[bytes] = mapped_column(LargeBinary)
    pepper_id: Mapped[str]
    service_account_id: Mapped[str | None]
    # Whose requests from the console it stands for: nobody was ever given its secret.
    user_id: Mapped[str | None] = mapped_column(ForeignKey("organization_user.id"))
    scopes: Mapped[list[str]] = mapped_column(server_default=text("'{model.request}'"))
    ip_allow_list: Mapped[list[str]] = mapped_column(server_default=text("'{}'"))
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    rotated_from: Mapped[str | None]
    rotation_key: Mapped[str | None]
    last_used_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class AdminApiKey(Base):
    """A key of the operator's organisation, for the admin API. With a user it may do what both roles allow."""

    __tablename__ = "admin_api_key"
    __table_args__ = (
        UniqueConstraint("public_id"),
        CheckConstraint("octet_length(secret_hmac) = 32", name="secret_hmac"),
        CheckConstraint(_ROLES, name="role"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    public_id: Mapped[str]
    secret_hmac: Mapped[bytes] = mapped_column(LargeBinary)
    pepper_id: Mapped[str]
    # What gateways of before the roles read: an owner's key says `admin`, others say nothing and are refused there.
    scopes: Mapped[list[str]] = mapped_column(server_default=text("'{}'"))
    role: Mapped[str] = mapped_column(server_default="owner")
    user_id: Mapped[str | None] = mapped_column(ForeignKey("organization_user.id"))
    ip_allow_list: Mapped[list[str]] = mapped_column(server_default=text("'{}'"))
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class OrganizationUser(Base):
    """Somebody who administers. A role of `member` gives nothing by itself: memberships of projects do."""

    __tablename__ = "organization_user"
    __table_args__ = (
        Index(
            "uq_organization_user_email",
            "email",
            unique=True,
            postgresql_where=text("deleted_at IS NULL"),
        ),
        CheckConstraint(_ROLES, name="role"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    # In lower case. Null: the first owner, whom nobody has asked for one.
    email: Mapped[str | None]
    name: Mapped[str]
    role: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    deleted_at: Mapped[datetime | None]


class ProjectMember(Base):
    """A user who may see one project (member), or change its keys and accounts too (owner)."""

    __tablename__ = "project_member"
    __table_args__ = (
        CheckConstraint("role IN ('owner', 'member')", name="role"),
        Index("ix_project_member_user_id", "user_id"),
    )

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenant.id"), primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("organization_user.id"), primary_key=True)
    role: Mapped[str]
    added_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class Invite(Base):
    """Who is to become a user, and with what. `projects` holds project id → role there."""

    __tablename__ = "invite"
    __table_args__ = (CheckConstraint(_ROLES, name="role"), UniqueConstraint("token_hash"))

    id: Mapped[str] = mapped_column(primary_key=True)
    email: Mapped[str]
    role: Mapped[str]
    projects: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'"))
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    expires_at: Mapped[datetime]
    accepted_at: Mapped[datetime | None]
    # SHA-256 of the token in the newest link; null while nobody has one.
    token_hash: Mapped[bytes | None] = mapped_column(LargeBinary)


class ModelPermission(Base):
    """The tenant's list of served names; a tenant without a row may use every route that matches it."""

    __tablename__ = "model_permission"
    __table_args__ = (CheckConstraint("mode IN ('allow_list', 'deny_list')", name="mode"),)

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenant.id"), primary_key=True)
    mode: Mapped[str]
    model_ids: Mapped[list[str]] = mapped_column(server_default=text("'{}'"))
    updated_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class RateLimit(Base):
    """Limits of one tenant, narrowed to a key or a served model when those are given. Null = not limited."""

    __tablename__ = "rate_limit"
    __table_args__ = (
        UniqueConstraint("id"),
        Index(
            "uq_rate_limit_scope",
            "tenant_id",
            "key_id",
            "served_model",
            unique=True,
            postgresql_nulls_not_distinct=True,
        ),
        ForeignKeyConstraint(["tenant_id", "key_id"], ["api_key.tenant_id", "api_key.id"]),
        CheckConstraint(
            "least(requests_per_min, requests_burst, tokens_per_min, requests_per_day, concurrent_requests,"
            " max_prompt_tokens, max_output_tokens) >= 0",
            name="not_negative",
        ),
    )

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenant.id"), primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    key_id: Mapped[str | None]
    served_model: Mapped[str | None]
    requests_per_min: Mapped[int | None]
    requests_burst: Mapped[int | None]
    tokens_per_min: Mapped[int | None]
    requests_per_day: Mapped[int | None]
    concurrent_requests: Mapped[int | None]
    max_prompt_tokens: Mapped[int | None]
    max_output_tokens: Mapped[int | None]
    updated_at: Mapped[datetime] = mapped_column(server_default=_NOW)
