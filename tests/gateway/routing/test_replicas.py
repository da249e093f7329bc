"""The live view: loads that count each request once, drains, breakers that outlive churn."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from gateway.ids import PoolId, ReplicaId, RouteId
from gateway.ledger.types import Prices
from gateway.obs.metrics import Metrics
from gateway.routing.replicas import FORGET_AFTER_S, LiveReplica, Replicas
from gateway.routing.target import ReplicaRow, Target
from gateway.wire.load import EngineLoad

PRICES = Prices(1, 2, 3, Decimal(1), Decimal(1), Decimal(1))
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TARGET = Target(RouteId("r"), PoolId("p"), "m", "up", "tollway", "least_loaded", PRICES, 50, NOW)
ROWS = [ReplicaRow(ReplicaId(name), PoolId("p"), f"http://{name}", "e1", "tollway") for name in ("a", "b")]


class HandClock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def replicas(clock: HandClock) -> Replicas:
    view = Replicas(clock, Metrics(), random.Random(7).randrange)
    view.update(ROWS)
    return view


def named(replicas: Replicas, name: str) -> LiveReplica:
    return next(replica for replica in replicas.order(TARGET) if replica.id == name)


def load(running: int, epoch: str = "e1", waiting: int = 0) -> EngineLoad:
    return EngineLoad(epoch, running, waiting, 0.0)


def test_own_requests_are_not_counted_twice(replicas: Replicas) -> None:
    a = named(replicas, "a")
    replicas.began(a)
    replicas.observe(a, load(running=3, waiting=2))  # one of them is ours
    assert a.load == 5
    replicas.began(a)
    assert a.load == 6
    replicas.ended(a)
    replicas.ended(a)
    assert a.load == 4
    assert replicas.in_flight() == 0


def test_the_less_loaded_is_asked_first(replicas: Replicas) -> None:
    replicas.observe(named(replicas, "a"), load(5))
    assert [replica.id for replica in replicas.order(TARGET)] == ["b", "a"]
    assert [replica.id for replica in replicas.order(TARGET, below_load=5)] == ["b"]
    assert replicas.order(TARGET, excluded={ReplicaId("a"), ReplicaId("b")}) == []


def test_draining_ends_with_a_new_epoch(replicas: Replicas) -> None:
    replicas.refused(named(replicas, "a"), is_draining=True)
    assert [replica.id for replica in replicas.order(TARGET)] == ["b"]
    replicas.update([replace(ROWS[0], epoch="e2"), ROWS[1]])
    assert len(replicas.order(TARGET)) == 2


def test_a_breaker_outlives_health_check_churn(replicas: Replicas, clock: HandClock) -> None:
    a = named(replicas, "a")
    for _ in range(5):
        replicas.began(a)
        replicas.ended(a)
        replicas.failed(a)
    replicas.update([ROWS[1]])
    replicas.update(ROWS)
    assert [replica.id for replica in replicas.order(TARGET)] == ["b"]
    clock.seconds += 1.0
    assert len(replicas.order(TARGET)) == 2, "a probe is due"


def test_a_restarted_engine_is_probed_at_once(replicas: Replicas) -> None:
    a = named(replicas, "a")
    replicas.observe(a, load(1, "e1"))
    for _ in range(5):
        replicas.failed(a)
    replicas.observe(a, load(0, "e2"))
    assert len(replicas.order(TARGET)) == 2


def test_replicas_that_are_gone_are_forgotten(replicas: Replicas, clock: HandClock) -> None:
    a = named(replicas, "a")
    replicas.began(a)
    replicas.update([ROWS[1]])
    assert replicas.in_flight() == 1
    clock.seconds += FORGET_AFTER_S + 1
    replicas.update([ROWS[1]])
    assert replicas.in_flight() == 0


def test_an_unknown_pool_has_nobody(replicas: Replicas) -> None:
    assert replicas.order(replace(TARGET, pool_id=PoolId("other"))) == []
