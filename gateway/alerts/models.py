"""Tables of alerts: what is watched, what has fired, who listens, and what is on its way to whom."""

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index, Integer, LargeBinary, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from gateway.db import Base

__all__ = [
    "AlertEpisode",
    "AlertFiring",
    "AlertRecord",
    "AlertSilence",
    "Delivery",
    "DeliveryAttempt",
    "SpendAlert",
    "WebhookEndpoint",
]

_NOW = text("now()")


class SpendAlert(Base):
    """A threshold and who is told when committed spend reaches it.

    With a budget: of that budget's running period, as an amount or as percent of its limit. Without: of the calendar
    month (UTC) of a tenant, or of the organisation if there is no tenant either, whether it has a budget or not.
    """

    __tablename__ = "spend_alert"
    __table_args__ = (
        CheckConstraint("num_nonnulls(threshold_nanousd, threshold_percent) = 1", name="one_threshold"),
        CheckConstraint("threshold_nanousd > 0", name="amount"),
        CheckConstraint(
            "threshold_percent BETWEEN 1 AND 1000 AND budget_id IS NOT NULL OR threshold_percent IS NULL",
            name="percent",
        ),
        Index("ix_spend_alert_tenant_id_id", "tenant_id", "id"),
        Index("ix_spend_alert_budget_id", "budget_id"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str | None] = mapped_column(ForeignKey("tenant.id"))
    budget_id: Mapped[str | None] = mapped_column(ForeignKey("budget.id", ondelete="CASCADE"))
    threshold_nanousd: Mapped[int | None]
    threshold_percent: Mapped[int | None] = mapped_column(Integer)
    recipients: Mapped[list[str]]
    subject_prefix: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    # Of the threshold: a period that ended before it is not judged by it.
    updated_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class AlertFiring(Base):
    """The once-only guard: the highest threshold that a subject has fired at in a period. A higher one fires again."""

    __tablename__ = "alert_firing"

    subject: Mapped[str] = mapped_column(primary_key=True)
    period_key: Mapped[str] = mapped_column(primary_key=True)
    threshold_nanousd: Mapped[int]
    fired_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class AlertRecord(Base):
    """What fired, as its receivers are told it. Written once."""

    __tablename__ = "alert_record"
    __table_args__ = (
        Index("ix_alert_record_occurred_at_id", "occurred_at", "id"),
        Index("ix_alert_record_tenant_id_occurred_at_id", "tenant_id", "occurred_at", "id"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    type: Mapped[str]
    # Null: the organisation's. No foreign key: the record outlives what it tells of.
    tenant_id: Mapped[str | None]
    payload: Mapped[dict[str, Any]]
    occurred_at: Mapped[datetime]


class AlertEpisode(Base):
    """One stretch of time in which something was wrong, from its first moment to when it had been over for a while.

    `values` are those of its beginning, `last_values` the latest. `silence_id`: what kept it from being announced.
    """

    __tablename__ = "alert_episode"
    __table_args__ = (
        CheckConstraint("severity IN ('page', 'ticket', 'info')", name="severity"),
        CheckConstraint("resolved_at >= fired_at", name="order"),
        # One that is open per source and scope, however many workers see its cause.
        Index(
            "uq_alert_episode_open",
            "source",
            "scope",
            unique=True,
            postgresql_where=text("resolved_at IS NULL"),
        ),
        Index("ix_alert_episode_fired_at_id", "fired_at", "id"),
        Index("ix_alert_episode_tenant_id_fired_at_id", "tenant_id", "fired_at", "id"),
        Index("ix_alert_episode_source_scope_fired_at", "source", "scope", "fired_at"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    source: Mapped[str]
    scope: Mapped[str]
    severity: Mapped[str]
    # Null: the organisation's. No foreign key: the episode outlives what it tells of.
    tenant_id: Mapped[str | None]
    values: Mapped[dict[str, Any]]
    last_values: Mapped[dict[str, Any]]
    fired_at: Mapped[datetime]
    quiet_since: Mapped[datetime | None]
    resolved_at: Mapped[datetime | None]
    announced_at: Mapped[datetime | None]
    silence_id: Mapped[str | None]


class AlertSilence(Base):
    """A time in which episodes are recorded and nobody is told. Null: whichever source, scope or tenant."""

    __tablename__ = "alert_silence"
    __table_args__ = (
        CheckConstraint("starts_at <= ends_at", name="order"),
        Index("ix_alert_silence_ends_at", "ends_at"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    source: Mapped[str | None]
    scope: Mapped[str | None]
    tenant_id: Mapped[str | None] = mapped_column(ForeignKey("tenant.id"))
    reason: Mapped[str]
    created_by: Mapped[str]
    starts_at: Mapped[datetime]
    ends_at: Mapped[datetime]
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class Delivery(Base):
    """One record on its way to one target. `id` is the message's id on every attempt.

    `next_attempt_at` is when it is due, or, while somebody sends it, when it may be taken from them; null: it is over.
    """

    __tablename__ = "delivery"
    __table_args__ = (
        UniqueConstraint("record_id", "channel", "target_key"),
        Index(
            "ix_delivery_next_attempt_at",
            "next_attempt_at",
            postgresql_where=text("next_attempt_at IS NOT NULL"),
        ),
        Index("ix_delivery_channel_target_key_id", "channel", "target_key", "id"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    record_id: Mapped[str] = mapped_column(ForeignKey("alert_record.id", ondelete="CASCADE"))
    channel: Mapped[str]
    target_key: Mapped[str]
    target: Mapped[dict[str, Any]]
    attempts: Mapped[int] = mapped_column(Integer, server_default=text("0"))
    # Of which attempt the schedule counts from: the first, or the one that a replay began with.
    retries_from: Mapped[int] = mapped_column(Integer, server_default=text("0"))
    next_attempt_at: Mapped[datetime | None] = mapped_column(server_default=_NOW)
    delivered_at: Mapped[datetime | None]
    last_error: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class DeliveryAttempt(Base):
    """How one attempt went; written when it is over, so that of one that died with its worker there is only the count."""

    __tablename__ = "delivery_attempt"

    delivery_id: Mapped[str] = mapped_column(ForeignKey("delivery.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    started_at: Mapped[datetime]
    duration_ms: Mapped[int]
    status_code: Mapped[int | None] = mapped_column(Integer)
    error: Mapped[str | None]
    # The beginning of what the receiver said.
    answer: Mapped[str | None]


class WebhookEndpoint(Base):
    """An address that events are sent to: a tenant's own events, or, without a tenant, the operator's and everybody's.

    `secrets_sealed` holds what it is signed with, and what the receiver wants to be shown; see alerts/webhooks/secrets.
    """

    __tablename__ = "webhook_endpoint"
    __table_args__ = (
        CheckConstraint("format IN ('standard', 'slack', 'pagerduty', 'alertmanager')", name="format"),
        CheckConstraint("(disabled_at IS NULL) = (disabled_reason IS NULL)", name="disabled"),
        Index("ix_webhook_endpoint_tenant_id_id", "tenant_id", "id"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str | None] = mapped_column(ForeignKey("tenant.id"))
    name: Mapped[str]
    url: Mapped[str]
    event_types: Mapped[list[str]]
    format: Mapped[str] = mapped_column(server_default="standard")
    secrets_sealed: Mapped[bytes] = mapped_column(LargeBinary)
    secret_hint: Mapped[str]
    # The receiver asked for less, for the whole endpoint.
    paused_until: Mapped[datetime | None]
    disabled_at: Mapped[datetime | None]
    disabled_reason: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    # Of what it says and is signed with; not of how its deliveries go.
    updated_at: Mapped[datetime] = mapped_column(server_default=_NOW)
