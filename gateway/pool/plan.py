"""The supervisor's decisions, as a pure function: desired state and what was seen → actions.

Place: the heart of the reconcile loop. No clock, no database, no processes: everything it judges by is in
its arguments, so that each rule is a test of a few lines.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from gateway.ids import ReplicaId
from gateway.pool.launcher import Observed
from gateway.pool.probe import EngineStatus
from gateway.pool.sizing import size
from gateway.pool.views import Act, Action, PoolView, ReplicaView, Seen

__all__ = ["Limits", "backoff_s", "is_stable", "plan"]

LOST_AFTER_S = 30.0  # silent, though its process lives: no new requests
STUCK_AFTER_S = 180.0  # still silent: replaced. Far above a long step on a shared CPU
STABLE_AFTER_S = 120.0  # ready for this long: the next crash counts as the first
BACKOFF_FIRST_S = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Times of the supervisor, from the settings."""

    ready_timeout_s: float
    drain_timeout_s: float
    backoff_max_s: float


def plan(
    pool: PoolView,
    replicas: Sequence[ReplicaView],
    seen: dict[ReplicaId, Seen],
    now: datetime,
    limits: Limits,
    room: int | None = None,
) -> list[Action]:
    """What to do about one pool now. Replicas that are `stopped` are not given. `room`: for how many more the node has
    devices."""
    actions = size(pool, replicas, seen, room)
    leaving = {action.replica_id for action in actions}
    for replica in replicas:
        if replica.id not in leaving:
            action = _attend(pool, replica, seen[replica.id], now, limits)
            actions += [action] if action is not None else []
    return actions


def is_stable(replica: ReplicaView, now: datetime) -> bool:
    """Whether earlier crashes are forgiven: it was ready for long enough."""
    if replica.state != "ready" or replica.ready_at is None or replica.restarts == 0:
        return False
    return (now - replica.ready_at).total_seconds() >= STABLE_AFTER_S


def backoff_s(restarts: int, longest_s: float) -> float:
    """How long a replica that crashed `restarts` times in a row waits."""
    doublings = min(max(restarts - 1, 0), 30)
    return min(BACKOFF_FIRST_S * 2.0**doublings, longest_s)


def _attend(pool: PoolView, replica: ReplicaView, seen: Seen, now: datetime, limits: Limits) -> Action | None:
    age_s = (now - replica.changed_at).total_seconds()
    if replica.state == "failed":
        due = age_s >= backoff_s(replica.restarts, limits.backoff_max_s)
        return _to(replica, Act.LAUNCH) if due else None
    if seen.fault is not None:  # whatever its process thinks of it
        return _to(replica, Act.FAIL if replica.state != "draining" else Act.STOP, seen.fault)
    if replica.state == "draining":
        return _leave(replica, seen, age_s, limits)
    if seen.process is None:
        # Between its row and its process a supervisor may have died: then it was never started.
        fresh = replica.state == "starting"
        return _to(replica, Act.LAUNCH) if fresh else _to(replica, Act.FAIL, "its process is gone")
    if not seen.process.alive:
        return _to(replica, Act.FAIL, _obituary(seen.process))
    ours = pool.spec.kind != "external"  # what somebody else runs is not ended for being silent
    if replica.state == "starting" and ours and age_s > limits.ready_timeout_s and not _is_ready(seen):
        return _to(replica, Act.FAIL, f"not ready after {limits.ready_timeout_s:g} s")
    if seen.status is None:
        return _endure(replica, seen.silent_s, ours)
    return _follow(replica, seen.status)


def _leave(replica: ReplicaView, seen: Seen, age_s: float, limits: Limits) -> Action | None:
    if seen.process is None or not seen.process.alive:
        return _to(replica, Act.STOP, "drained")
    if age_s > limits.drain_timeout_s:
        return _to(replica, Act.STOP, f"still busy after {limits.drain_timeout_s:g} s")
    ignorant = seen.status is not None and seen.status.state != "draining"
    return _to(replica, Act.DRAIN, "not told yet") if ignorant else None


def _endure(replica: ReplicaView, silent_s: float, ours: bool) -> Action | None:
    if ours and replica.state == "lost" and silent_s > STUCK_AFTER_S:
        return _to(replica, Act.FAIL, f"no answer for {silent_s:.0f} s")
    if replica.state == "ready" and silent_s > LOST_AFTER_S:
        return _to(replica, Act.LOSE, f"no answer for {silent_s:.0f} s")
    return None


def _follow(replica: ReplicaView, status: EngineStatus) -> Action | None:
    """The engine knows best whether it is ready."""
    if status.state == "draining":
        return _to(replica, Act.DRAIN, "told to drain by somebody else")
    if status.state == "starting":
        return _to(replica, Act.UNPUBLISH, "loading again") if replica.state != "starting" else None
    if replica.state != "ready" or replica.epoch != status.epoch:
        return _to(replica, Act.PUBLISH, epoch=status.epoch)
    return None


def _is_ready(seen: Seen) -> bool:
    return seen.status is not None and seen.status.state == "ready"


def _obituary(process: Observed) -> str:
    why = f": {process.last_words}" if process.last_words else ""
    if process.exit_code is None:
        return f"its process ended{why}"
    if process.exit_code < 0:
        return f"killed by signal {-process.exit_code}"
    return f"exited with {process.exit_code}{why}"


def _to(replica: ReplicaView, act: Act, reason: str = "", epoch: str | None = None) -> Action:
    return Action(act, replica.pool_id, replica.id, reason, epoch)
