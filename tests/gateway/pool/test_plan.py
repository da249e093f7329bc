"""Every rule of the supervisor, as a decision on what was seen."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gateway.ids import PoolId, ReplicaId
from gateway.pool.launcher import Observed
from gateway.pool.plan import Limits, backoff_s, is_stable, plan
from gateway.pool.probe import EngineStatus
from gateway.pool.spec import EngineSpec
from gateway.pool.views import Act, PoolView, ReplicaView, Seen

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LIMITS = Limits(ready_timeout_s=300, drain_timeout_s=600, backoff_max_s=60)
SPEC = EngineSpec(model="m", served_names=("a",), max_replicas=4)
POOL = PoolView(PoolId("pool"), "pool", SPEC, generation=1, wanted=True)
ALIVE = Observed(alive=True)
READY = Seen(ALIVE, EngineStatus("ready", "e1"))
LOADING = Seen(ALIVE, EngineStatus("starting", "e1"))
MUTE = Seen(ALIVE, None)
GONE = Seen(None, None)


def replica(name: str = "r1", state: Any = "ready", *, age_s: float = 10, **changes: Any) -> ReplicaView:
    base = ReplicaView(
        id=ReplicaId(name), pool_id=POOL.id, state=state, url="http://r", gpus=(), mark=None, epoch="e1",
        pool_generation=1, restarts=0, ready_at=None, changed_at=NOW - timedelta(seconds=age_s),
    )  # fmt: skip
    return replace(base, **changes)


def wanting(count: int, **changes: Any) -> PoolView:
    return replace(POOL, spec=SPEC.model_copy(update={"min_replicas": count}), **changes)


def decide(pool: PoolView, *pairs: tuple[ReplicaView, Seen]) -> list[tuple[Act, str | None]]:
    seen = {one.id: look for one, look in pairs}
    actions = plan(pool, [one for one, _ in pairs], seen, NOW, LIMITS)
    return [(action.act, action.replica_id) for action in actions]


def test_missing_replicas_are_created() -> None:
    assert decide(wanting(3), (replica(), READY)) == [(Act.CREATE, None)] * 2


def test_a_settled_pool_is_left_alone() -> None:
    assert decide(POOL, (replica(), READY)) == []


def test_a_surplus_leaves_the_unready_and_the_young_first() -> None:
    old, young, loading = replica("old", age_s=90), replica("young", age_s=5), replica("loading", "starting")
    decided = decide(wanting(1), (young, READY), (loading, LOADING), (old, READY))
    assert decided == [(Act.DRAIN, "young"), (Act.STOP, "loading")]


def test_a_stopped_pool_drains_what_runs() -> None:
    assert decide(replace(POOL, wanted=False), (replica(), READY)) == [(Act.DRAIN, "r1")]


def test_a_new_specification_is_ready_before_the_old_replica_drains() -> None:
    pool = replace(POOL, generation=2)
    old = replica("old")
    assert decide(pool, (old, READY)) == [(Act.CREATE, None)]
    new = replica("new", "starting", pool_generation=2)
    assert decide(pool, (old, READY), (new, LOADING)) == []
    ready = replace(new, state="ready")
    assert decide(pool, (old, READY), (ready, READY)) == [(Act.DRAIN, "old")]


def test_an_old_replica_that_serves_nobody_goes_at_once() -> None:
    old = replica("old", "failed")
    assert decide(replace(POOL, generation=2), (old, GONE)) == [(Act.CREATE, None), (Act.STOP, "old")]


@pytest.mark.parametrize(
    ("state", "seen", "expected"),
    [
        ("starting", GONE, Act.LAUNCH),
        ("starting", LOADING, None),
        ("starting", MUTE, None),
        ("starting", READY, Act.PUBLISH),
        ("starting", Seen(Observed(alive=False, exit_code=1), None), Act.FAIL),
        ("ready", GONE, Act.FAIL),
        ("ready", Seen(Observed(alive=False, exit_code=-9), None), Act.FAIL),
        ("ready", LOADING, Act.UNPUBLISH),
        ("ready", Seen(ALIVE, EngineStatus("ready", "e2")), Act.PUBLISH),
        ("ready", Seen(ALIVE, EngineStatus("draining", "e1")), Act.DRAIN),
        ("ready", Seen(ALIVE, None, silent_s=29), None),
        ("ready", Seen(ALIVE, None, silent_s=31), Act.LOSE),
        ("lost", Seen(ALIVE, None, silent_s=100), None),
        ("lost", READY, Act.PUBLISH),
        ("lost", Seen(ALIVE, None, silent_s=181), Act.FAIL),
        ("draining", READY, Act.DRAIN),
        ("draining", Seen(ALIVE, EngineStatus("draining", "e1")), None),
        ("draining", MUTE, None),
        ("draining", GONE, Act.STOP),
    ],
)
def test_what_is_seen_of_a_replica(state: str, seen: Seen, expected: Act | None) -> None:
    pool = wanting(0) if state == "draining" else POOL
    assert decide(pool, (replica(state=state), seen)) == ([(expected, "r1")] if expected else [])


@pytest.mark.parametrize(
    ("state", "expected"),
    [("starting", Act.FAIL), ("ready", Act.FAIL), ("lost", Act.FAIL), ("draining", Act.STOP)],
)
def test_what_runs_on_a_broken_device_is_ended(state: str, expected: Act) -> None:
    seen = replace(READY, fault="GPU-1: GPU is lost")
    pool = wanting(0) if state == "draining" else POOL
    [action] = plan(pool, [replica(state=state)], {ReplicaId("r1"): seen}, NOW, LIMITS)
    assert (action.act, action.reason) == (expected, "GPU-1: GPU is lost")


def test_deadlines_of_loading_and_draining() -> None:
    assert decide(POOL, (replica(state="starting", age_s=301), LOADING)) == [(Act.FAIL, "r1")]
    assert decide(POOL, (replica(state="starting", age_s=301), READY)) == [(Act.PUBLISH, "r1")]
    draining = Seen(ALIVE, EngineStatus("draining", "e1"))
    assert decide(wanting(0), (replica(state="draining", age_s=601), draining)) == [(Act.STOP, "r1")]


def test_an_external_engine_is_never_ended() -> None:
    spec = EngineSpec(kind="external", model="m", served_names=("a",), urls=("http://one",))
    pool = replace(POOL, spec=spec)
    silent = Seen(ALIVE, None, silent_s=1000)
    assert decide(pool, (replica(state="lost"), silent)) == []
    assert decide(pool, (replica(state="starting", age_s=1000), silent)) == []
    assert decide(replace(pool, wanted=False), (replica(), READY)) == [(Act.STOP, "r1")]


def test_a_crashed_replica_waits_longer_each_time() -> None:
    assert [backoff_s(restarts, 60) for restarts in (1, 2, 3, 6, 7, 1000)] == [1, 2, 4, 32, 60, 60]
    failed = replica(state="failed", restarts=4, age_s=7.9)
    assert decide(POOL, (failed, GONE)) == []
    due = replace(failed, changed_at=NOW - timedelta(seconds=8))
    assert decide(POOL, (due, GONE)) == [(Act.LAUNCH, "r1")]


def test_crashes_are_forgiven_after_a_stable_time() -> None:
    young = replica(restarts=2, ready_at=NOW - timedelta(seconds=119))
    assert not is_stable(young, NOW)
    assert is_stable(replace(young, ready_at=NOW - timedelta(seconds=120)), NOW)
