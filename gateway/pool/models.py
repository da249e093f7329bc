"""Tables of the engines: pools (desired state), replicas (what runs), and who may start them.

The supervisor writes replicas; the gateway only reads them. `spec` is an EngineSpec as JSON, which this
module does not interpret.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import ARRAY, CheckConstraint, Double, ForeignKey, Index, Integer, text
from sqlalchemy.orm import Mapped, mapped_column

from gateway.db import Base

__all__ = ["Pool", "PoolNode", "Replica", "ReplicaSample", "SupervisorLease"]

_NOW = text("now()")


class Pool(Base):
    __tablename__ = "pool"
    __table_args__ = (
        CheckConstraint("desired_state IN ('running', 'stopped')", name="desired_state"),
        CheckConstraint(
            "strategy IN ('prefix', 'least_loaded', 'round_robin', 'consistent_hash')", name="strategy"
        ),
        CheckConstraint(
            "connect_timeout_s > 0 AND first_token_timeout_s > 0 AND between_tokens_timeout_s > 0"
            " AND total_timeout_s > 0 AND keep_alive_s > 0",
            name="timeouts",
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    spec: Mapped[dict[str, Any]]
    # Empty: open to every tenant that a route leads here.
    reserved_tenants: Mapped[list[str]] = mapped_column(server_default=text("'{}'"))
    desired_state: Mapped[str] = mapped_column(server_default="running")
    # Counts changes of `spec`; a replica of an older generation is to be replaced.
    generation: Mapped[int] = mapped_column(server_default="1")
    # How requests are spread, and how long they may take (null: the gateway's setting): a TrafficPolicy in columns.
    strategy: Mapped[str] = mapped_column(server_default="prefix")
    connect_timeout_s: Mapped[float | None]
    first_token_timeout_s: Mapped[float | None]
    between_tokens_timeout_s: Mapped[float | None]
    total_timeout_s: Mapped[float | None]
    keep_alive_s: Mapped[float | None]
    # What an external pool's engines are called with, under the master key.
    sealed_api_key: Mapped[bytes | None]
    # No route leads to it any more and its replicas leave; the row stays for their journals.
    deleted_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    updated_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class PoolNode(Base):
    """What a node's supervisor makes of a pool: how far it is, and how many replicas it runs there."""

    __tablename__ = "pool_node"
    __table_args__ = (
        CheckConstraint(
            "phase IN ('settled', 'starting', 'rolling', 'blocked', 'crashing', 'stopping', 'stopped')",
            name="phase",
        ),
        CheckConstraint("replicas >= 0", name="replicas"),
    )

    pool_id: Mapped[str] = mapped_column(ForeignKey("pool.id"), primary_key=True)
    node: Mapped[str] = mapped_column(primary_key=True)
    phase: Mapped[str] = mapped_column(server_default="settled")
    reason: Mapped[str] = mapped_column(server_default="")
    since: Mapped[datetime] = mapped_column(server_default=_NOW)
    # The autoscaler's number, when and why it was chosen; null: the specification's least.
    replicas: Mapped[int | None] = mapped_column(Integer)
    scaled_at: Mapped[datetime | None]
    scaled_for: Mapped[str | None]


class SupervisorLease(Base):
    """Who may start and end replicas of a node. A take-over increments `generation`, and every launch checks
    owner, generation and expiry in the transaction that books the replica's address and devices."""

    __tablename__ = "supervisor_lease"

    node: Mapped[str] = mapped_column(primary_key=True)
    owner: Mapped[str]
    generation: Mapped[int]
    expires_at: Mapped[datetime]


class Replica(Base):
    """One engine instance; a restart keeps the row, its address and its journal."""

    __tablename__ = "replica"
    __table_args__ = (
        CheckConstraint(
            "state IN ('starting', 'ready', 'draining', 'stopped', 'failed', 'lost')", name="state"
        ),
        Index("ix_replica_pool_id", "pool_id"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    pool_id: Mapped[str] = mapped_column(ForeignKey("pool.id"))
    node: Mapped[str]
    state: Mapped[str] = mapped_column(server_default="starting")
    gpus: Mapped[list[int]] = mapped_column(ARRAY(Integer), server_default=text("'{}'"))
    # The same devices by UUID, where the node can tell; else their indices again. What is booked by.
    devices: Mapped[list[str]] = mapped_column(server_default=text("'{}'"))
    url: Mapped[str | None]
    pid: Mapped[int | None] = mapped_column(Integer)
    # Start time of `pid` in clock ticks since boot: tells the process from a later one with the same number.
    pid_started_ticks: Mapped[int | None]
    epoch: Mapped[str | None]
    journal_dir: Mapped[str | None]
    pool_generation: Mapped[int] = mapped_column(server_default="1")
    # The lease under which it was last launched.
    lease_generation: Mapped[int] = mapped_column(server_default="0")
    restarts: Mapped[int] = mapped_column(Integer, server_default="0")
    last_error: Mapped[str | None]
    ready_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    updated_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class ReplicaSample(Base):
    """What a replica said of itself at one moment; the worker asks every few seconds, and a day of it is kept.

    A replica that does not answer has no sample. Counters are the engine's own, since it started; null where it has
    none.
    """

    __tablename__ = "replica_sample"
    __table_args__ = (Index("ix_replica_sample_pool_id_at", "pool_id", "at"),)

    at: Mapped[datetime] = mapped_column(primary_key=True)
    replica_id: Mapped[str] = mapped_column(primary_key=True)
    pool_id: Mapped[str]
    running: Mapped[int] = mapped_column(Integer)
    waiting: Mapped[int] = mapped_column(Integer)
    kv_usage: Mapped[float] = mapped_column(Double)
    preemptions: Mapped[int | None]
    tokens: Mapped[int | None]
