"""Tables of the ledger's upkeep: closed billing periods, and what a person has to look at."""

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, Identity, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from gateway.db import Base

__all__ = ["BillingPeriod", "ReviewItem"]

_NOW = text("now()")


class BillingPeriod(Base):
    """A month (UTC) to which no event will be added any more, with what it then came to. Written once."""

    __tablename__ = "billing_period"
    __table_args__ = (CheckConstraint("starts_at < ends_at", name="bounds"), UniqueConstraint("ends_at"))

    period_key: Mapped[str] = mapped_column(primary_key=True)
    starts_at: Mapped[datetime]
    ends_at: Mapped[datetime]
    requests: Mapped[int]
    tokens: Mapped[int]
    amount_nanousd: Mapped[int]
    closed_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class ReviewItem(Base):
    """Evidence that cannot or must not settle by itself. One row per kind and subject, however often it is met.

    `unreadable_record`: a journal record that nobody understands. `evidence_without_request`: tokens of a request
    that the ledger has neither a hold nor a settlement of. `engine_gone`: settled at its prompt because its
    replica and its journal are gone. `stale_settlement`: it came when the guard may have been forgotten already.
    """

    __tablename__ = "review_item"
    __table_args__ = (
        CheckConstraint(
            "kind IN ('unreadable_record', 'evidence_without_request', 'engine_gone', 'stale_settlement')",
            name="kind",
        ),
        CheckConstraint("(resolved_at IS NULL) = (resolution IS NULL)", name="resolution"),
        UniqueConstraint("kind", "subject"),
        Index("ix_review_item_open", "created_at", postgresql_where=text("resolved_at IS NULL")),
        Index("ix_review_item_request_id", "request_id"),
    )

    id: Mapped[int] = mapped_column(Identity(always=True), primary_key=True)
    kind: Mapped[str]
    subject: Mapped[str]
    request_id: Mapped[str | None]
    tenant_id: Mapped[str | None]
    replica_id: Mapped[str | None]
    details: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    resolved_at: Mapped[datetime | None]
    resolution: Mapped[str | None]
