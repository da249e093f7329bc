"""Tables of objectives: what is promised, what counts towards it per minute, hour and day, and how it stands.

The counted rows are sums that only the worker adds to, in the transaction that takes away what it counts.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import Boolean, CheckConstraint, Double, ForeignKey, Index, Integer, text
from sqlalchemy.orm import Mapped, mapped_column

from gateway.db import Base

__all__ = [
    "LatencyDay",
    "LatencyHour",
    "LatencyMinute",
    "Objective",
    "ObjectiveState",
    "SloDay",
    "SloHour",
    "SloMinute",
]

_NOW = text("now()")


class Objective(Base):
    """One promise. A null tenant or model means each of them. The threshold is 0 for availability."""

    __tablename__ = "objective"
    __table_args__ = (
        CheckConstraint("sli IN ('availability', 'ttft', 'tpot')", name="sli"),
        CheckConstraint("request_class IN ('interactive', 'batch')", name="request_class"),
        CheckConstraint("target_ppm BETWEEN 1 AND 999999", name="target"),
        CheckConstraint(
            "(sli = 'availability') = (threshold_us = 0) AND threshold_us >= 0", name="threshold"
        ),
        Index(
            "uq_objective_scope",
            "tenant_id",
            "served_model",
            "request_class",
            "sli",
            unique=True,
            postgresql_nulls_not_distinct=True,
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str | None] = mapped_column(ForeignKey("tenant.id"))
    served_model: Mapped[str | None]
    request_class: Mapped[str]
    sli: Mapped[str]
    threshold_us: Mapped[int]
    target_ppm: Mapped[int] = mapped_column(Integer)
    # False until the worker has counted, by its threshold, what happened before.
    is_recounted: Mapped[bool] = mapped_column(Boolean, server_default=text("false"))
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    updated_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class _Slo:
    """Good and all requests of a bucket (UTC) by one threshold. No names where nobody was recognised."""

    bucket: Mapped[datetime] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(primary_key=True)
    served_model: Mapped[str] = mapped_column(primary_key=True)
    request_class: Mapped[str] = mapped_column(primary_key=True)
    sli: Mapped[str] = mapped_column(primary_key=True)
    threshold_us: Mapped[int] = mapped_column(primary_key=True)
    good: Mapped[int]
    total: Mapped[int]


class SloMinute(_Slo, Base):
    __tablename__ = "slo_minute"
    __table_args__ = (Index("ix_slo_minute_tenant_id_bucket", "tenant_id", "bucket"),)


class SloHour(_Slo, Base):
    __tablename__ = "slo_hour"
    __table_args__ = (Index("ix_slo_hour_tenant_id_bucket", "tenant_id", "bucket"),)


class SloDay(_Slo, Base):
    __tablename__ = "slo_day"
    __table_args__ = (Index("ix_slo_day_tenant_id_bucket", "tenant_id", "bucket"),)


class _Latency:
    """Histograms of a bucket (UTC): {upper bound in microseconds: count}. Requests that count for availability."""

    bucket: Mapped[datetime] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(primary_key=True)
    served_model: Mapped[str] = mapped_column(primary_key=True)
    request_class: Mapped[str] = mapped_column(primary_key=True)
    pool_id: Mapped[str] = mapped_column(primary_key=True)
    ttft: Mapped[dict[str, Any]]
    tpot: Mapped[dict[str, Any]]
    e2e: Mapped[dict[str, Any]]


class LatencyMinute(_Latency, Base):
    __tablename__ = "latency_minute"
    __table_args__ = (Index("ix_latency_minute_tenant_id_bucket", "tenant_id", "bucket"),)


class LatencyHour(_Latency, Base):
    __tablename__ = "latency_hour"
    __table_args__ = (Index("ix_latency_hour_tenant_id_bucket", "tenant_id", "bucket"),)


class LatencyDay(_Latency, Base):
    __tablename__ = "latency_day"
    __table_args__ = (Index("ix_latency_day_tenant_id_bucket", "tenant_id", "bucket"),)


class ObjectiveState(Base):
    """How each series stands with the objective that holds for it; the worker writes it anew every few seconds."""

    __tablename__ = "objective_state"

    tenant_id: Mapped[str] = mapped_column(primary_key=True)
    served_model: Mapped[str] = mapped_column(primary_key=True)
    request_class: Mapped[str] = mapped_column(primary_key=True)
    sli: Mapped[str] = mapped_column(primary_key=True)
    objective_id: Mapped[str]
    threshold_us: Mapped[int]
    target_ppm: Mapped[int] = mapped_column(Integer)
    good: Mapped[int]
    total: Mapped[int]
    budget_left: Mapped[float | None] = mapped_column(Double)
    burn: Mapped[dict[str, Any]]
    evaluated_at: Mapped[datetime]
