"""The audit log: who changed what. Append-only for the application role."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Index, text
from sqlalchemy.orm import Mapped, mapped_column

from gateway.db import Base

__all__ = ["AuditLog"]


class AuditLog(Base):
    __tablename__ = "audit_log"
    __table_args__ = (
        Index("ix_audit_log_occurred_at_id", "occurred_at", "id"),
        Index("ix_audit_log_tenant_id_occurred_at_id", "tenant_id", "occurred_at", "id"),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    occurred_at: Mapped[datetime] = mapped_column(server_default=text("now()"))
    actor_kind: Mapped[str]
    actor_id: Mapped[str]
    action: Mapped[str]
    resource_kind: Mapped[str]
    resource_id: Mapped[str]
    # Null: the change concerns the installation, not one tenant. No foreign key: the log outlives its rows.
    tenant_id: Mapped[str | None]
    request_id: Mapped[str | None]
    client_ip: Mapped[str | None]
    details: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'"))
