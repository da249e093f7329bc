"""The table of idempotency keys, as hashes, with the sealed answers to the requests that had them."""

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, LargeBinary, text
from sqlalchemy.orm import Mapped, mapped_column

from gateway.db import Base

__all__ = ["IdempotentRequest"]


class IdempotentRequest(Base):
    """In flight while `answer_sealed` is null and the gateway run that has it lives."""

    __tablename__ = "idempotent_request"
    __table_args__ = (
        CheckConstraint("octet_length(key_hash) = 32 AND octet_length(body_hash) = 32", name="hashes"),
        Index("ix_idempotent_request_expires_at", "expires_at"),
    )

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenant.id"), primary_key=True)
    key_hash: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    body_hash: Mapped[bytes] = mapped_column(LargeBinary)
    request_id: Mapped[str]
    instance_id: Mapped[str]
    answer_sealed: Mapped[bytes | None] = mapped_column(LargeBinary)
    created_at: Mapped[datetime] = mapped_column(server_default=text("now()"))
    expires_at: Mapped[datetime]
