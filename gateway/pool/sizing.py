"""How many replicas, of which specification: what is created and what leaves. Pure.

Place: the half of `plan` that looks at a pool as a whole. A newer specification replaces replicas step by step: at most
`max_surge` run beyond those that are wanted, and where no device is free for one of them, an old replica leaves first,
as long as no more than `max_unavailable` are missing. The replicas that serve are never fewer than that leaves, however
the new ones fare: one that does not get ready stops the roll. Knows no clock and no processes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.ids import ReplicaId
from gateway.pool.views import Act, Action, PoolView, ReplicaView, Seen, Stage

__all__ = ["CRASHING_AFTER", "size", "stage", "wanted_replicas"]

CRASHING_AFTER = 3
"""In a row: it will not get better by itself."""

_REPLACED = "replaced by a newer specification"
_SURPLUS = "more than wanted"


@dataclass(frozen=True, slots=True)
class _Crew:
    """The replicas of one pool, sorted by what they are good for."""

    current: list[ReplicaView]
    """Of the pool's specification as it is; whoever leaves first comes last."""
    old: list[ReplicaView]
    leaving: int
    """They take requests no more, but hold their devices until they are gone."""

    @property
    def serving(self) -> int:
        """An old one that is silent may come back, and counts until it has."""
        ready = sum(one.state == "ready" for one in self.current)
        return ready + sum(one.state in ("ready", "lost") for one in self.old)


def wanted_replicas(pool: PoolView) -> int:
    """The autoscaler's number as far as the specification lets it, else the least."""
    spec = pool.spec
    if not pool.wanted:
        return 0
    if not spec.follows_queue or pool.scaled_to is None:
        return spec.replicas
    return min(max(pool.scaled_to, spec.min_replicas), spec.max_replicas)


def size(
    pool: PoolView, replicas: Sequence[ReplicaView], seen: dict[ReplicaId, Seen], room: int | None
) -> list[Action]:
    """Enough replicas of the current specification, and no others in the end. `room`: for how many more there are free
    devices; None: as many as you like."""
    kept = _kept(pool, replicas)
    actions = [Action(Act.KEEP, pool.id, one.id, "its address is still wanted") for one in kept]
    crew = _crew(pool, [one for one in replicas if one not in kept], seen)
    wanted = wanted_replicas(pool)
    missing = wanted - len(kept) - len(crew.current)
    left = _free(pool, crew, room)
    actions += [Action(Act.CREATE, pool.id)] * _creatable(pool, crew, wanted, missing, left)
    leaving = [(one, _SURPLUS) for one in crew.current[max(wanted - len(kept), 0) :]]
    leaving += [(one, _REPLACED) for one in _replaceable(pool, crew, wanted, missing, left)]
    return actions + [_farewell(pool, one, reason, seen[one.id]) for one, reason in leaving]


def stage(
    pool: PoolView, replicas: Sequence[ReplicaView], seen: dict[ReplicaId, Seen], room: int | None
) -> Stage:
    crew = _crew(pool, replicas, seen)
    if not pool.wanted:
        return Stage("stopping", f"{len(replicas)} to go") if replicas else Stage("stopped")
    wanted = wanted_replicas(pool)
    ready = sum(one.state == "ready" for one in crew.current)
    broken = next((one for one in crew.current if one.restarts >= CRASHING_AFTER), None)
    if broken is not None and broken.state != "ready":
        return Stage(
            "crashing", f"{broken.id}, {broken.restarts} times in a row: {broken.last_error or 'unknown'}"
        )
    if crew.old:
        done = f"{ready} of {wanted} replaced"
        if _is_blocked(pool, crew, wanted, room):
            return Stage("blocked", f"{done}; no free device for a new replica, and none may leave before it")
        return Stage("rolling", done)
    if ready < wanted:
        return Stage("starting", f"{ready} of {wanted} ready")
    return Stage("settled")


def _kept(pool: PoolView, replicas: Sequence[ReplicaView]) -> list[ReplicaView]:
    """Somebody else's engine is not started anew for a new specification: its row only has to say the same."""
    if pool.spec.kind != "external" or not pool.wanted:
        return []
    addresses = pool.spec.addresses
    return [
        one
        for one in replicas
        if one.pool_generation != pool.generation and one.url in addresses and one.state in ("ready", "lost")
    ]


def _crew(pool: PoolView, replicas: Sequence[ReplicaView], seen: dict[ReplicaId, Seen]) -> _Crew:
    """Whoever has the least to do leaves first, the youngest of those; one that is not ready before all others."""
    staying = [one for one in replicas if one.state != "draining"]
    current = [one for one in staying if one.pool_generation == pool.generation]
    old = [one for one in staying if one.pool_generation != pool.generation]
    current.sort(key=lambda one: (one.state != "ready", -_load(seen[one.id]), one.changed_at))
    old.sort(key=lambda one: (one.state == "ready", _load(seen[one.id]), one.changed_at))
    return _Crew(current, old, len(replicas) - len(staying))


def _load(seen: Seen) -> int:
    """What it works on and what waits there, as far as it says."""
    load = seen.status.load if seen.status is not None else None
    return load.running + load.waiting if load is not None else 0


def _free(pool: PoolView, crew: _Crew, room: int | None) -> int | None:
    """Less what is created and has not taken its devices yet."""
    if room is None or not pool.spec.gpus_per_replica:
        return room
    return max(room - sum(not (one.devices or one.gpus) for one in crew.current), 0)


def _creatable(pool: PoolView, crew: _Crew, wanted: int, missing: int, free: int | None) -> int:
    if missing <= 0:
        return 0
    if crew.old:
        surge = wanted + pool.spec.max_surge - len(crew.current) - len(crew.old) - crew.leaving
        missing = min(missing, max(surge, 0))
    # A replica that is about to leave gives its devices back: without it, that too few are there is said at once.
    is_patient = bool(crew.old or crew.leaving)
    return min(missing, free) if is_patient and free is not None else missing


def _replaceable(
    pool: PoolView, crew: _Crew, wanted: int, missing: int, free: int | None
) -> list[ReplicaView]:
    serving_nobody = [one for one in crew.old if one.state in ("starting", "failed")]
    serving = [one for one in crew.old if one not in serving_nobody]
    spare = crew.serving - wanted
    if spare <= 0 and _is_short(crew, missing, free):
        spare += pool.spec.unavailable_max(wanted)
    return serving_nobody + serving[: max(spare, 0)]


def _is_short(crew: _Crew, missing: int, free: int | None) -> bool:
    """There is no device for the next new replica, and none is about to come free by itself."""
    is_moving = crew.leaving or any(one.state != "ready" for one in crew.current)
    return missing > 0 and free == 0 and not is_moving


def _is_blocked(pool: PoolView, crew: _Crew, wanted: int, room: int | None) -> bool:
    missing, free = wanted - len(crew.current), _free(pool, crew, room)
    return _is_short(crew, missing, free) and not _replaceable(pool, crew, wanted, missing, free)


def _farewell(pool: PoolView, replica: ReplicaView, reason: str, seen: Seen) -> Action:
    running = seen.process is not None and seen.process.alive and pool.spec.kind != "external"
    act = Act.DRAIN if running and replica.state in ("ready", "lost") else Act.STOP
    return Action(act, replica.pool_id, replica.id, reason)
