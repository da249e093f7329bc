"""Tables of where a served name leads and what it costs: routes and price rows.

A route without all three price components in force cannot be published (a deferred constraint trigger). Price
rows are insert-only: a change of price is a new row with a later `valid_from`. The `batch_…` components are what a
request of class `batch` pays.
"""

from datetime import datetime
from decimal import Decimal

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    ForeignKey,
    Identity,
    Index,
    Integer,
    Numeric,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from gateway.db import Base

__all__ = ["Price", "Route"]

_NOW = text("now()")


class Route(Base):
    """(tenant, served name) → pool. A null tenant means every tenant; a tenant's own route wins over it."""

    __tablename__ = "route"
    __table_args__ = (
        Index(
            "uq_route_tenant_id_served_model",
            "tenant_id",
            "served_model",
            unique=True,
            postgresql_nulls_not_distinct=True,
        ),
        Index("ix_route_pool_id", "pool_id"),
        CheckConstraint("default_max_output > 0", name="default_max_output"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str | None] = mapped_column(ForeignKey("tenant.id"))
    served_model: Mapped[str]
    pool_id: Mapped[str] = mapped_column(ForeignKey("pool.id"))
    sku: Mapped[str]
    default_max_output: Mapped[int] = mapped_column(Integer, server_default="4096")
    published: Mapped[bool] = mapped_column(Boolean, server_default=text("true"))
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    updated_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class Price(Base):
    """What one token of a component costs from `valid_from` on, until a later row of the same component."""

    __tablename__ = "price"
    __table_args__ = (
        UniqueConstraint("sku", "component", "valid_from"),
        CheckConstraint(
            "component IN ('input', 'cached_input', 'output', 'batch_input', 'batch_cached_input', 'batch_output')",
            name="component",
        ),
        CheckConstraint("nanousd_per_token >= 0", name="not_negative"),
    )

    id: Mapped[int] = mapped_column(Identity(always=True), primary_key=True)
    sku: Mapped[str]
    component: Mapped[str]
    valid_from: Mapped[datetime]
    # Six decimals times nine digits of tokens stay below the 28 digits that Decimal multiplies exactly.
    nanousd_per_token: Mapped[Decimal] = mapped_column(Numeric(18, 6))
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
