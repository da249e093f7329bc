"""Tables of console sessions: passwords, sessions, who has tried too often, the OpenID provider and whom it knows. A session that ends bumps the topic
`sessions` of `config_revision` by trigger."""

from datetime import datetime
from typing import Any

from sqlalchemy import Boolean, CheckConstraint, ForeignKey, Index, Integer, LargeBinary, text
from sqlalchemy.orm import Mapped, mapped_column

from gateway.db import Base

__all__ = ["ConsoleSession", "IdentityProvider", "LoginAttempts", "UserIdentity", "UserPassword"]

_NOW = text("now()")


class UserPassword(Base):
    __tablename__ = "user_password"

    user_id: Mapped[str] = mapped_column(ForeignKey("organization_user.id"), primary_key=True)
    # Argon2id in the PHC string format, with its parameters and salt.
    hash: Mapped[str]
    updated_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class ConsoleSession(Base):
    """One sign-in of one browser. The refresh token is computed from `salt`, `generation` and a key of the server."""

    __tablename__ = "console_session"
    __table_args__ = (
        CheckConstraint("method IN ('password', 'invite', 'oidc')", name="method"),
        CheckConstraint("(ended_at IS NULL) = (end_reason IS NULL)", name="end"),
        Index("ix_console_session_user_id_id", "user_id", "id"),
        Index("ix_console_session_expires_at", "expires_at"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("organization_user.id"))
    method: Mapped[str]
    salt: Mapped[bytes] = mapped_column(LargeBinary)
    generation: Mapped[int] = mapped_column(Integer, server_default=text("0"))
    address: Mapped[str | None]
    user_agent: Mapped[str | None]
    created_at: Mapped[datetime]
    rotated_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    end_reason: Mapped[str | None]


class LoginAttempts(Base):
    """Attempts in a row that did not succeed, of one account or from one address, under a keyed hash of it."""

    __tablename__ = "login_attempts"
    __table_args__ = (Index("ix_login_attempts_last_at", "last_at"),)

    subject: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    failures: Mapped[int] = mapped_column(Integer)
    last_at: Mapped[datetime]
    blocked_until: Mapped[datetime]


class IdentityProvider(Base):
    """The OpenID provider that people may sign in through. One row at most."""

    __tablename__ = "identity_provider"
    __table_args__ = (
        CheckConstraint(
            "default_role IN ('owner', 'admin', 'billing', 'viewer', 'member')", name="default_role"
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    issuer: Mapped[str]
    client_id: Mapped[str]
    # AES-256-GCM under the master key; null for a public client.
    client_secret_sealed: Mapped[bytes | None] = mapped_column(LargeBinary)
    name: Mapped[str]
    origin: Mapped[str]
    scopes: Mapped[list[str]]
    role_claim: Mapped[str | None]
    role_map: Mapped[dict[str, Any]]
    registers: Mapped[bool] = mapped_column(Boolean)
    default_role: Mapped[str]
    is_enabled: Mapped[bool] = mapped_column(Boolean)
    updated_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class UserIdentity(Base):
    """Whom a provider knows under which name of its own."""

    __tablename__ = "user_identity"
    __table_args__ = (Index("ix_user_identity_user_id", "user_id"),)

    issuer: Mapped[str] = mapped_column(primary_key=True)
    subject: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("organization_user.id"))
    linked_at: Mapped[datetime] = mapped_column(server_default=_NOW)
