"""Tables of console sessions: passwords, sessions, and who has tried too often. A session that ends bumps the topic
`sessions` of `config_revision` by trigger."""

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, Integer, LargeBinary, text
from sqlalchemy.orm import Mapped, mapped_column

from gateway.db import Base

__all__ = ["ConsoleSession", "LoginAttempts", "UserPassword"]

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
