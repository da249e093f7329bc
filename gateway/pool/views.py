"""What the supervisor judges by: pools as they are wanted, replicas as they are, and what was seen of them.

Place: between the repository, which reads them, and `plan`, which decides on them. Data only.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Literal

from gateway.ids import PoolId, ReplicaId
from gateway.pool.launcher import Observed
from gateway.pool.probe import EngineStatus
from gateway.pool.process import ProcessMark
from gateway.pool.spec import EngineSpec
from gateway.pool.traffic import DEFAULT_TRAFFIC, TrafficPolicy

__all__ = ["Act", "Action", "Phase", "PoolView", "ReplicaState", "ReplicaView", "Seen", "Stage"]

ReplicaState = Literal["starting", "ready", "draining", "stopped", "failed", "lost"]
Phase = Literal["settled", "starting", "rolling", "blocked", "crashing", "stopping", "stopped"]


class Act(Enum):
    CREATE = "create"  # one more replica
    LAUNCH = "launch"  # start (again) the process of a replica
    PUBLISH = "publish"  # ready: requests may come
    UNPUBLISH = "unpublish"  # its process lives but is loading again
    LOSE = "lose"  # silent: no new requests until it answers
    FAIL = "fail"  # end what is left of it; it starts again after the backoff
    DRAIN = "drain"  # no new requests, finish the running ones, exit
    STOP = "stop"  # end what is left of it, for good
    KEEP = "keep"  # what a newer specification says of it is true already


@dataclass(frozen=True, slots=True)
class Action:
    act: Act
    pool_id: PoolId
    replica_id: ReplicaId | None = None
    reason: str = ""
    epoch: str | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """How far the node's replicas of a pool are from what is wanted, for a person."""

    phase: Phase
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PoolView:
    id: PoolId
    name: str
    spec: EngineSpec
    generation: int
    wanted: bool
    traffic: TrafficPolicy = DEFAULT_TRAFFIC
    sealed_api_key: bytes | None = field(default=None, repr=False)
    scaled_to: int | None = None
    """How many the node's autoscaler wants, and since when."""
    scaled_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ReplicaView:
    id: ReplicaId
    pool_id: PoolId
    state: ReplicaState
    url: str | None
    gpus: tuple[int, ...]
    mark: ProcessMark | None
    epoch: str | None
    pool_generation: int
    restarts: int
    ready_at: datetime | None
    changed_at: datetime
    last_error: str | None = None
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at a replica. `process` is None when nothing was ever launched or nothing is left of it."""

    process: Observed | None
    status: EngineStatus | None
    silent_s: float = 0.0
    """Since the last answer, or since this supervisor first looked."""
    fault: str | None = None
    """What is wrong with its devices."""
