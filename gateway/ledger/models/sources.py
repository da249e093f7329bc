"""Tables of what the ledger learns from: gateway runs, engine epochs, journals, and the revision feed."""

from datetime import datetime

from sqlalchemy import Boolean, CheckConstraint, Index, SmallInteger, text
from sqlalchemy.orm import Mapped, mapped_column

from gateway.db import Base

__all__ = ["ConfigRevision", "EngineEpoch", "GatewayInstance", "JournalAttempt", "JournalCursor"]

_NOW = text("now()")


class GatewayInstance(Base):
    """One run of one gateway process; `heartbeat_at` is the database's clock. Holds name the run, not the name:
    a gateway that was killed and started again under its old name must not seem to carry its old requests."""

    __tablename__ = "gateway_instance"
    __table_args__ = (Index("ix_gateway_instance_heartbeat_at", "heartbeat_at"),)

    instance_id: Mapped[str] = mapped_column(primary_key=True)
    gateway_id: Mapped[str]
    started_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    heartbeat_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    stopped_at: Mapped[datetime | None]


class EngineEpoch(Base):
    """A run of a replica's core that journals have named, with what its matched attempts come to: the first sum must be
    that of the other two."""

    __tablename__ = "engine_epoch"

    replica_id: Mapped[str] = mapped_column(primary_key=True)
    epoch: Mapped[str] = mapped_column(primary_key=True)
    first_seen_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    last_seen_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    journalled_tokens: Mapped[int] = mapped_column(server_default=text("0"))
    billed_tokens: Mapped[int] = mapped_column(server_default=text("0"))
    unbilled_tokens: Mapped[int] = mapped_column(server_default=text("0"))


class JournalCursor(Base):
    """How far a replica's usage journal has been read. The cursor is the engine's and opaque."""

    __tablename__ = "journal_cursor"

    replica_id: Mapped[str] = mapped_column(primary_key=True)
    cursor: Mapped[str]
    read_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class JournalAttempt(Base):
    """The newest journal record of an attempt: the engine's own figure, beside which `attempt` must come out equal.

    `matched_at` is set once the ledger has an attempt for it, `drift_tokens` by how far the two then were apart;
    what stays unmatched is drift too.
    """

    __tablename__ = "journal_attempt"
    __table_args__ = (
        Index("ix_journal_attempt_unmatched", "at", postgresql_where=text("matched_at IS NULL")),
        Index("ix_journal_attempt_drift", "matched_at", postgresql_where=text("drift_tokens <> 0")),
        Index("ix_journal_attempt_read_at_brin", "read_at", postgresql_using="brin"),
    )

    request_id: Mapped[str] = mapped_column(primary_key=True)
    attempt: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    replica_id: Mapped[str]
    epoch: Mapped[str]
    has_ended: Mapped[bool] = mapped_column(Boolean)
    prompt_tokens: Mapped[int]
    cached_tokens: Mapped[int]
    completion_tokens: Mapped[int]
    overrun_tokens: Mapped[int]
    resumed_from: Mapped[int | None] = mapped_column(SmallInteger)
    finish_reason: Mapped[str | None]
    queue_ms: Mapped[int | None]
    ttft_ms: Mapped[int | None]
    e2e_ms: Mapped[int | None]
    at: Mapped[datetime]
    read_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    matched_at: Mapped[datetime | None]
    drift_tokens: Mapped[int | None]


class ConfigRevision(Base):
    """The feed every process polls: one row per topic, its revision raised by trigger at commit.

    Topics: `tenancy` (tenants, keys, permissions, rate limits), `routing` (routes, prices, pools, replicas),
    `budget`, `sessions` (of the console). The row's lock orders the commits, so a poller never sees a later revision before an earlier one.
    """

    __tablename__ = "config_revision"
    __table_args__ = (CheckConstraint("topic IN ('tenancy', 'routing', 'budget', 'sessions')", name="topic"),)

    topic: Mapped[str] = mapped_column(primary_key=True)
    revision: Mapped[int]
    changed_at: Mapped[datetime] = mapped_column(server_default=_NOW)
