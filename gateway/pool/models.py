"""Tables of the engines: pools (desired state) and replicas (what runs).

The supervisor writes replicas; the gateway only reads them. `spec` is an EngineSpec as JSON, which this
module does not interpret.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index, Integer, text
from sqlalchemy.orm import Mapped, mapped_column

from gateway.db import Base

__all__ = ["Pool", "Replica"]

_NOW = text("now()")


class Pool(Base):
    __tablename__ = "pool"
    __table_args__ = (CheckConstraint("desired_state IN ('running', 'stopped')", name="desired_state"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    spec: Mapped[dict[str, Any]]
    # Empty: open to every tenant that a route leads here.
    reserved_tenants: Mapped[list[str]] = mapped_column(server_default=text("'{}'"))
    desired_state: Mapped[str] = mapped_column(server_default="running")
    # Counts changes of `spec`; a replica of an older generation is to be replaced.
    generation: Mapped[int] = mapped_column(server_default="1")
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    updated_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class Replica(Base):
    """One engine instance. `lease_owner` until `lease_expires_at` may start, drain or stop it; every take-over
    of the lease increments `lease_generation`, which is checked at each launch."""

    __tablename__ = "replica"
    __table_args__ = (
        CheckConstraint(
            "state IN ('starting', 'ready', 'draining', 'stopped', 'failed', 'lost')", name="state"
        ),
        Index("ix_replica_pool_id", "pool_id"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    pool_id: Mapped[str] = mapped_column(ForeignKey("pool.id"))
    state: Mapped[str] = mapped_column(server_default="starting")
    url: Mapped[str | None]
    pid: Mapped[int | None] = mapped_column(Integer)
    # Start time of `pid` in clock ticks since boot: tells the process from a later one with the same number.
    pid_started_ticks: Mapped[int | None]
    epoch: Mapped[str | None]
    journal_dir: Mapped[str | None]
    pool_generation: Mapped[int] = mapped_column(server_default="1")
    lease_owner: Mapped[str | None]
    lease_expires_at: Mapped[datetime | None]
    lease_generation: Mapped[int] = mapped_column(server_default="0")
    restarts: Mapped[int] = mapped_column(Integer, server_default="0")
    last_error: Mapped[str | None]
    ready_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    updated_at: Mapped[datetime] = mapped_column(server_default=_NOW)
