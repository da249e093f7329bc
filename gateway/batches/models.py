"""Tables of files and batches, and of the results that a running batch has so far."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from gateway.batches.types import ACTIVE_SQL
from gateway.db import Base

__all__ = ["Batch", "BatchResult", "StoredFile"]

_NOW = text("now()")
_ACTIVE = f"state IN {ACTIVE_SQL}"


class StoredFile(Base):
    """A file whose content lies in the blob store under `tenant_id/id`.

    The row comes before the content and goes after it, so nothing lies there that no row knows.
    """

    __tablename__ = "stored_file"
    __table_args__ = (
        UniqueConstraint("id"),
        CheckConstraint("purpose IN ('batch', 'batch_output')", name="purpose"),
        CheckConstraint("state IN ('uploading', 'ready', 'deleted')", name="state"),
        CheckConstraint("bytes >= 0", name="bytes"),
        Index("ix_stored_file_tenant_id_created_at_id", "tenant_id", "created_at", "id"),
        Index("ix_stored_file_expires_at", "expires_at"),
    )

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenant.id"), primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    purpose: Mapped[str]
    filename: Mapped[str]
    bytes: Mapped[int] = mapped_column(server_default="0")
    state: Mapped[str] = mapped_column(server_default="uploading")
    created_at: Mapped[datetime]
    # When its content goes: for an upload that was never finished, and for a deleted file, soon.
    expires_at: Mapped[datetime | None]


class Batch(Base):
    """Requests of one input file. Whoever holds the lease, under the number `lease_epoch`, may write."""

    __tablename__ = "batch"
    __table_args__ = (
        UniqueConstraint("id"),
        CheckConstraint(
            "state IN ('validating', 'failed', 'in_progress', 'finalizing', 'completed', 'expired', 'cancelling',"
            " 'cancelled')",
            name="state",
        ),
        CheckConstraint("least(total, completed, failed) >= 0", name="counts"),
        Index("ix_batch_tenant_id_created_at_id", "tenant_id", "created_at", "id"),
        Index("ix_batch_active", "tenant_id", "run_after", postgresql_where=text(_ACTIVE)),
    )

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenant.id"), primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    key_id: Mapped[str]
    endpoint: Mapped[str]
    input_file_id: Mapped[str]
    completion_window: Mapped[str]
    # `metadata` is taken by the mapper's own attribute.
    labels: Mapped[dict[str, Any] | None] = mapped_column("metadata", JSONB)
    model: Mapped[str | None]
    state: Mapped[str] = mapped_column(server_default="validating")
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    in_progress_at: Mapped[datetime | None]
    finalizing_at: Mapped[datetime | None]
    completed_at: Mapped[datetime | None]
    failed_at: Mapped[datetime | None]
    expired_at: Mapped[datetime | None]
    cancelling_at: Mapped[datetime | None]
    cancelled_at: Mapped[datetime | None]
    output_file_id: Mapped[str | None]
    error_file_id: Mapped[str | None]
    output_expires_after_s: Mapped[int | None]
    # Why the input file was refused: a list of code, line, message and param.
    errors: Mapped[list[Any] | None] = mapped_column(JSONB)
    total: Mapped[int] = mapped_column(server_default="0")
    completed: Mapped[int] = mapped_column(server_default="0")
    failed: Mapped[int] = mapped_column(server_default="0")
    input_tokens: Mapped[int] = mapped_column(server_default="0")
    cached_tokens: Mapped[int] = mapped_column(server_default="0")
    output_tokens: Mapped[int] = mapped_column(server_default="0")
    reasoning_tokens: Mapped[int] = mapped_column(server_default="0")
    # Every line before this one has its result; it begins at this byte of the input file.
    next_line: Mapped[int] = mapped_column(server_default="0")
    next_offset: Mapped[int] = mapped_column(server_default="0")
    # Null: nobody works on it. A run that is dead leaves its name here.
    lease_owner: Mapped[str | None]
    # While it is leased, until when; else the first moment at which somebody may take it up.
    run_after: Mapped[datetime] = mapped_column(server_default=_NOW)
    lease_epoch: Mapped[int] = mapped_column(server_default="0")
    # How often somebody took it over from a run that was dead.
    takeovers: Mapped[int] = mapped_column(Integer, server_default="0")


class BatchResult(Base):
    """The answer to one line, until all of them are in the batch's files."""

    __tablename__ = "batch_result"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "batch_id"], ["batch.tenant_id", "batch.id"], ondelete="CASCADE"),
    )

    tenant_id: Mapped[str] = mapped_column(primary_key=True)
    batch_id: Mapped[str] = mapped_column(primary_key=True)
    line: Mapped[int] = mapped_column(primary_key=True)
    is_error: Mapped[bool] = mapped_column(Boolean)
    # The line of the output or the error file.
    content: Mapped[str]
