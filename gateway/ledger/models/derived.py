"""Tables that follow from usage events: the outbox, the rollups it feeds, and refusal counts."""

from datetime import datetime
from typing import Any

from sqlalchemy import Identity, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from gateway.db import Base

__all__ = ["Outbox", "RefusalMinute", "RollupDay", "RollupHour", "RollupMinute"]

_NOW = text("now()")


class Outbox(Base):
    """Effects of committed facts that are still to be applied or delivered; a row is deleted when it is done."""

    __tablename__ = "outbox"
    __table_args__ = (Index("ix_outbox_topic_id", "topic", "id"),)

    id: Mapped[int] = mapped_column(Identity(always=True), primary_key=True)
    topic: Mapped[str]
    tenant_id: Mapped[str | None]
    payload: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class _Rollup:
    """Sums over usage events of one bucket (UTC) and one combination of dimensions."""

    bucket: Mapped[datetime] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(primary_key=True)
    key_id: Mapped[str] = mapped_column(primary_key=True)
    served_model: Mapped[str] = mapped_column(primary_key=True)
    pool_id: Mapped[str] = mapped_column(primary_key=True)
    endpoint: Mapped[str] = mapped_column(primary_key=True)
    request_class: Mapped[str] = mapped_column(primary_key=True)
    status: Mapped[str] = mapped_column(primary_key=True)
    # Corrections add tokens and money but no request.
    requests: Mapped[int]
    prompt_uncached_tokens: Mapped[int]
    prompt_cached_tokens: Mapped[int]
    completion_tokens: Mapped[int]
    reasoning_tokens: Mapped[int]
    input_nanousd: Mapped[int]
    cached_input_nanousd: Mapped[int]
    output_nanousd: Mapped[int]
    amount_nanousd: Mapped[int]


class RollupMinute(_Rollup, Base):
    __tablename__ = "rollup_minute"
    __table_args__ = (Index("ix_rollup_minute_tenant_id_bucket", "tenant_id", "bucket"),)


class RollupHour(_Rollup, Base):
    __tablename__ = "rollup_hour"
    __table_args__ = (Index("ix_rollup_hour_tenant_id_bucket", "tenant_id", "bucket"),)


class RollupDay(_Rollup, Base):
    __tablename__ = "rollup_day"
    __table_args__ = (Index("ix_rollup_day_tenant_id_bucket", "tenant_id", "bucket"),)


class RefusalMinute(Base):
    """Requests that were refused and therefore have no usage event, counted per run of a gateway and minute.

    A run writes sums that only grow, so that a row that is written twice counts once. Names are empty where nobody
    was recognised. `counted`: how many of them count towards objectives by now; the worker's to write.
    """

    __tablename__ = "refusal_minute"
    __table_args__ = (
        Index("ix_refusal_minute_tenant_id_bucket", "tenant_id", "bucket"),
        Index("ix_refusal_minute_uncounted", "bucket", postgresql_where=text("counted <> requests")),
    )

    bucket: Mapped[datetime] = mapped_column(primary_key=True)
    gateway_id: Mapped[str] = mapped_column(primary_key=True)
    instance_id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(primary_key=True)
    key_id: Mapped[str] = mapped_column(primary_key=True)
    served_model: Mapped[str] = mapped_column(primary_key=True)
    reason: Mapped[str] = mapped_column(primary_key=True)
    requests: Mapped[int]
    counted: Mapped[int] = mapped_column(server_default=text("0"))
