"""Pools that queue, run out of KV memory, preempt or answer late; replicas that are down or come and go. Pure.

Thresholds are per replica, so that they mean the same for a pool of any size. An episode ends below a lower one. Where
nothing is known of a pool that should be serving, nothing changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from gateway.alerts.episodes import Level, Severity, Signal
from gateway.slo.histogram import Histogram, percentile

__all__ = [
    "LOOK_BACK",
    "ReplicaHealth",
    "Sample",
    "down_signals",
    "flapping_signals",
    "kv_signals",
    "latency_signals",
    "preemption_signals",
    "queue_signals",
]

LOOK_BACK: Final = timedelta(minutes=5)
FRESH: Final = timedelta(seconds=60)
"""Older samples say nothing of now."""
EASE: Final = 0.8


@dataclass(frozen=True, slots=True)
class QueueRule:
    """More than `waiting` requests per replica, in every sample of `lasting`."""

    name: str
    waiting: int
    lasting: timedelta
    severity: Severity


QUEUE_RULES: Final = (
    QueueRule("scale", 30, timedelta(minutes=2), "info"),
    QueueRule("warn", 50, timedelta(seconds=30), "ticket"),
)
KV_USAGE_MAX: Final = 0.95
KV_USAGE_EASE: Final = 0.90
KV_LASTING: Final = timedelta(seconds=60)
PREEMPTIONS_MAX: Final = 5
"""In five minutes, of all replicas of a pool."""
E2E_P99_MAX_S: Final = 30.0
REQUESTS_MIN: Final = 20
"""In five minutes: fewer say nothing about a percentile."""
FLAPPING_RESTARTS: Final = 3


@dataclass(frozen=True, slots=True)
class Sample:
    """What one replica said of itself. Counters only grow while it runs; None where it has none."""

    pool_id: str
    pool: str
    replica_id: str
    at: datetime
    waiting: int
    running: int
    kv_usage: float
    preemptions: int | None


@dataclass(frozen=True, slots=True)
class ReplicaHealth:
    """A replica that should be serving."""

    replica_id: str
    pool_id: str
    pool: str
    node: str
    state: str
    restarts: int
    last_error: str | None


def queue_signals(samples: Sequence[Sample], serving: Mapping[str, str], now: datetime) -> list[Signal]:
    """`serving`: names of the pools with a replica that is ready, by id."""
    found = []
    for pool_id, name, some in _by_pool(samples, serving):
        moments = _waiting(some)
        for rule in QUEUE_RULES:
            level = _lasting(moments, rule.waiting, rule.waiting * EASE, rule.lasting, now)
            values = {
                "pool_id": pool_id,
                "pool": name,
                "advice": rule.name,
                "waiting_per_replica": round(moments[-1][1], 1) if moments else None,
                "threshold": rule.waiting,
            }
            found.append(Signal(f"{pool_id}/{rule.name}", rule.severity, level, values))
    return found


def kv_signals(samples: Sequence[Sample], serving: Mapping[str, str], now: datetime) -> list[Signal]:
    """By the fullest replica: requests that wait for memory on one cannot use another's."""
    found = []
    for pool_id, name, some in _by_pool(samples, serving):
        levels, fullest = [], 0.0
        for replica_id in sorted({one.replica_id for one in some}):
            moments = [(one.at, one.kv_usage) for one in some if one.replica_id == replica_id]
            levels.append(_lasting(moments, KV_USAGE_MAX, KV_USAGE_EASE, KV_LASTING, now))
            fullest = max(fullest, moments[-1][1])
        values = {"pool_id": pool_id, "pool": name, "kv_usage": round(fullest, 4), "threshold": KV_USAGE_MAX}
        found.append(Signal(pool_id, "ticket", _worst(levels), values))
    return found


def preemption_signals(samples: Sequence[Sample], serving: Mapping[str, str], now: datetime) -> list[Signal]:
    found = []
    for pool_id, name, some in _by_pool(samples, serving):
        if not any(now - one.at <= FRESH for one in some):
            level, number = _unknown(), None
        else:
            number = _preempted(some)
            level = "firing" if number >= PREEMPTIONS_MAX else "between" if number else "quiet"
        values = {"pool_id": pool_id, "pool": name, "preemptions": number, "threshold": PREEMPTIONS_MAX}
        found.append(Signal(pool_id, "ticket", level, values))
    return found


def latency_signals(end_to_end: Mapping[str, Histogram], names: Mapping[str, str]) -> list[Signal]:
    """Of the last five minutes' interactive requests, by pool."""
    found = []
    for pool_id, histogram in sorted(end_to_end.items()):
        p99_us = percentile(histogram, 0.99)
        if p99_us is None:
            continue
        p99_s, requests = p99_us / 1e6, sum(histogram.values())
        level: Level = "quiet" if p99_s < E2E_P99_MAX_S * EASE else "between"
        if p99_s > E2E_P99_MAX_S and requests >= REQUESTS_MIN:
            level = "firing"
        values = {
            "pool_id": pool_id,
            "pool": names.get(pool_id),
            "e2e_p99_s": round(p99_s, 3),
            "requests": requests,
            "threshold_s": E2E_P99_MAX_S,
        }
        found.append(Signal(pool_id, "ticket", level, values))
    return found


def down_signals(replicas: Sequence[ReplicaHealth]) -> list[Signal]:
    """One that is starting again is neither down nor back."""
    levels: dict[str, Level] = {"failed": "firing", "lost": "firing", "ready": "quiet"}
    return [
        Signal(one.replica_id, "page", levels.get(one.state, "between"), _health(one)) for one in replicas
    ]


def flapping_signals(replicas: Sequence[ReplicaHealth]) -> list[Signal]:
    """The supervisor forgives restarts once a replica has been ready for two minutes."""
    return [
        Signal(
            one.replica_id,
            "ticket",
            "firing" if one.restarts >= FLAPPING_RESTARTS else "between" if one.restarts else "quiet",
            _health(one),
        )
        for one in replicas
    ]


def _health(one: ReplicaHealth) -> dict[str, Any]:
    return {
        "replica_id": one.replica_id,
        "pool_id": one.pool_id,
        "pool": one.pool,
        "node": one.node,
        "replica_state": one.state,
        "restarts": one.restarts,
        "last_error": one.last_error,
    }


def _by_pool(samples: Sequence[Sample], serving: Mapping[str, str]) -> list[tuple[str, str, list[Sample]]]:
    """Oldest first. Pools that serve are there even without a sample."""
    found: dict[str, list[Sample]] = {pool_id: [] for pool_id in serving}
    names = dict(serving)
    for one in sorted(samples, key=lambda sample: sample.at):
        found.setdefault(one.pool_id, []).append(one)
        names[one.pool_id] = one.pool
    return [(pool_id, names[pool_id], some) for pool_id, some in sorted(found.items())]


def _waiting(samples: Sequence[Sample]) -> list[tuple[datetime, float]]:
    """Requests that wait, per replica, at each moment."""
    moments: dict[datetime, list[int]] = {}
    for one in samples:
        moments.setdefault(one.at, []).append(one.waiting)
    return [(at, sum(values) / len(values)) for at, values in sorted(moments.items())]


def _lasting(
    moments: Sequence[tuple[datetime, float]], above: float, ease: float, lasting: timedelta, now: datetime
) -> Level:
    """Firing if all that is known of the time `lasting` is above, and reaches back as far; quiet if the newest value is
    below `ease`."""
    recent = [(at, value) for at, value in moments if now - at <= lasting + FRESH / 4]
    if not moments or now - moments[-1][0] > FRESH:
        return _unknown()
    if moments[-1][1] <= ease:
        return "quiet"
    reaches_back = now - recent[0][0] >= lasting if recent else False
    return "firing" if reaches_back and all(value > above for _, value in recent) else "between"


def _preempted(samples: Sequence[Sample]) -> int:
    """A counter that is smaller than before has begun anew."""
    before: dict[str, int] = {}
    total = 0
    for one in samples:
        if one.preemptions is not None:
            total += max(0, one.preemptions - before.get(one.replica_id, one.preemptions))
            before[one.replica_id] = one.preemptions
    return total


def _worst(levels: Sequence[Level]) -> Level:
    for level in ("firing", "between"):
        if level in levels:
            return "firing" if level == "firing" else "between"
    return "quiet" if levels else _unknown()


def _unknown() -> Level:
    return "between"
