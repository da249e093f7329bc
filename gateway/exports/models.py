"""Tables of the exports: runs, who is whom at Stripe, and what was delivered there."""

from datetime import date, datetime
from typing import Any

from sqlalchemy import Boolean, CheckConstraint, Date, ForeignKey, Index, Integer, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from gateway.db import Base

__all__ = ["ExportRun", "MeterEvent", "StripeCustomer"]

_NOW = text("now()")


class ExportRun(Base):
    """One export that was asked for or scheduled. `manifest` is what was published: rows, sums and sha256 of each file."""

    __tablename__ = "export_run"
    __table_args__ = (
        CheckConstraint("format IN ('csv', 'jsonl', 'parquet', 'focus', 'stripe')", name="format"),
        CheckConstraint("status IN ('queued', 'running', 'succeeded', 'failed')", name="status"),
        CheckConstraint("period_start < period_end", name="period"),
        CheckConstraint("(status = 'succeeded') = (manifest IS NOT NULL)", name="succeeded_has_manifest"),
        Index(
            "uq_export_run_scheduled",
            "format",
            "period_start",
            "period_end",
            unique=True,
            postgresql_where=text("is_scheduled"),
        ),
        Index(
            "ix_export_run_due", "next_attempt_at", postgresql_where=text("status IN ('queued', 'running')")
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    format: Mapped[str]
    tenant_id: Mapped[str | None] = mapped_column(ForeignKey("tenant.id"))
    period_start: Mapped[date] = mapped_column(Date)
    period_end: Mapped[date] = mapped_column(Date)
    # Where it goes, without secrets.
    destination: Mapped[str]
    is_scheduled: Mapped[bool] = mapped_column(Boolean, server_default=text("false"))
    requested_by: Mapped[str]
    status: Mapped[str] = mapped_column(server_default="queued")
    attempts: Mapped[int] = mapped_column(Integer, server_default="0")
    # Null: nobody will try again. While a worker runs it, the end of its lease.
    next_attempt_at: Mapped[datetime | None] = mapped_column(server_default=_NOW)
    error: Mapped[str | None]
    manifest: Mapped[dict[str, Any] | None] = mapped_column(JSONB)
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    finished_at: Mapped[datetime | None]


class StripeCustomer(Base):
    """Whom a tenant's usage is billed to at Stripe. Written once: an export of a closed period must not change."""

    __tablename__ = "stripe_customer"

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenant.id"), primary_key=True)
    customer_id: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class MeterEvent(Base):
    """One delta for Stripe's meter and how its delivery went. The identifier says tenant and hour, so it exists once.

    `uncertain`: sent, but nobody knows whether it arrived, and Stripe no longer recognises its identifier.
    """

    __tablename__ = "meter_event"
    __table_args__ = (
        CheckConstraint(
            "status IN ('pending', 'delivered', 'refused', 'expired', 'uncertain')", name="status"
        ),
        Index("ix_meter_event_due", "next_attempt_at", postgresql_where=text("status = 'pending'")),
    )

    identifier: Mapped[str] = mapped_column(primary_key=True)
    run_id: Mapped[str] = mapped_column(ForeignKey("export_run.id"))
    tenant_id: Mapped[str]
    customer_id: Mapped[str]
    event_name: Mapped[str]
    happened_at: Mapped[datetime]
    amount_nanousd: Mapped[int]
    status: Mapped[str] = mapped_column(server_default="pending")
    attempts: Mapped[int] = mapped_column(Integer, server_default="0")
    next_attempt_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    # When an attempt first ended without an answer.
    unanswered_at: Mapped[datetime | None]
    last_error: Mapped[str | None]
    delivered_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
