"""How a pool as a whole is brought to its specification: rules one by one, and whole rolls, step by step."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count, product
from typing import Any

import pytest

from gateway.ids import PoolId, ReplicaId
from gateway.pool.launcher import Observed
from gateway.pool.probe import EngineLoad, EngineStatus
from gateway.pool.sizing import size, stage, wanted_replicas
from gateway.pool.spec import EngineSpec
from gateway.pool.views import Act, Phase, PoolView, ReplicaView, Seen

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUNS = Seen(Observed(alive=True), EngineStatus("ready", "e"))
GPUS = tuple(range(8))


def pool(wanted: int = 3, generation: int = 2, **spec: Any) -> PoolView:
    values = {"model": "m", "served_names": ("a",), "min_replicas": wanted, "max_replicas": max(wanted, 1)}
    return PoolView(PoolId("pool"), "pool", EngineSpec(**(values | spec)), generation, wanted=True)


def replica(name: str, state: Any = "ready", generation: int = 2, **changes: Any) -> ReplicaView:
    base = ReplicaView(
        id=ReplicaId(name), pool_id=PoolId("pool"), state=state, url=f"http://{name}", gpus=(), mark=None, epoch="e",
        pool_generation=generation, restarts=0, ready_at=None, changed_at=NOW,
    )  # fmt: skip
    return replace(base, **changes)


def old(name: str, state: Any = "ready", **changes: Any) -> ReplicaView:
    return replica(name, state, generation=1, **changes)


def decided(
    one: PoolView, replicas: list[ReplicaView], room: int | None = None, **requests: int
) -> list[str]:
    """`create`, or what is done to whom. `requests`: how much each has to do."""
    seen = {
        it.id: Seen(Observed(alive=True), EngineStatus("ready", "e", EngineLoad(requests.get(it.id, 0), 0)))
        for it in replicas
    }
    return [
        f"{action.act.value} {action.replica_id or ''}".strip() for action in size(one, replicas, seen, room)
    ]


OLD3 = [old("a"), old("b"), old("c")]


@pytest.mark.parametrize(
    ("what", "replicas", "spec", "room", "expected"),
    [
        ("one new replica beyond those that run", OLD3, {}, None, ["create"]),
        ("as many as may surge", OLD3, {"max_surge": 2}, None, ["create"] * 2),
        ("never more than are wanted", OLD3, {"max_surge": 9}, None, ["create"] * 3),
        ("the new one has to be ready first", [*OLD3, replica("n", "starting")], {}, None, []),
        ("then one old one leaves", [*OLD3, replica("n")], {}, None, ["drain a"]),
        ("and is gone before the next comes", [old("a", "draining"), *OLD3[1:], replica("n")], {}, None, []),
        ("which then comes", [*OLD3[1:], replica("n")], {}, None, ["create"]),
        ("a new one that fails stops the roll", [*OLD3, replica("n", "failed", restarts=9)], {}, None, []),
        ("without a free device an old one leaves first", OLD3, {"gpus": GPUS}, 0, ["drain a"]),
        ("as many as may be missing", OLD3, {"gpus": GPUS, "max_unavailable": 2}, 0, ["drain a", "drain b"]),
        ("none, if none may be missing", OLD3, {"gpus": GPUS, "max_unavailable": 0}, 0, []),
        ("nor while a device is about to come free", [old("a", "draining"), *OLD3[1:]], {"gpus": GPUS}, 0, []),
        ("nor while a new one loads", [*OLD3, replica("n", "starting", gpus=(3,))], {"gpus": GPUS}, 0, []),
        ("nor while one fails", [*OLD3[1:], replica("n", "failed", gpus=(3,))], {"gpus": GPUS}, 0, []),
        ("with a free one it is used", OLD3, {"gpus": GPUS}, 1, ["create"]),
        ("once, until it is booked", [*OLD3, replica("n", "starting")], {"gpus": GPUS, "max_surge": 3}, 1, []),
        ("a silent one may come back: it leaves in turn", [old("a", "lost"), old("b"), old("c")], {}, None, ["create"]),
        ("before those that serve", [old("b"), old("a", "lost"), old("c"), replica("n")], {}, None, ["drain a"]),
    ],
)  # fmt: skip
def test_a_newer_specification_replaces_step_by_step(
    what: str, replicas: list[ReplicaView], spec: dict[str, Any], room: int | None, expected: list[str]
) -> None:
    assert decided(pool(**({"max_replicas": 4} | spec)), replicas, room) == expected, what


def test_the_last_replica_leaves_only_by_leave() -> None:
    assert decided(pool(1, gpus=(0,)), [old("a")], 0) == []
    assert decided(pool(1, gpus=(0,), max_unavailable=1), [old("a")], 0) == ["drain a"]


def test_the_emptiest_leaves_first() -> None:
    full = [replica("a"), replica("b"), replica("c")]
    assert decided(pool(1), full, a=5, b=9, c=1) == ["drain a", "drain c"]
    assert decided(pool(3), [*OLD3, replica("n")], a=5, b=1, c=9) == ["drain b"]


def test_a_pool_that_was_too_large_shrinks_while_it_rolls() -> None:
    assert decided(pool(1), OLD3) == ["drain a", "drain b"]


def test_too_few_devices_are_said_at_once() -> None:
    """Nobody is about to leave: waiting would be for ever, and a replica that failed says why."""
    assert decided(pool(2, gpus=(0, 1)), [replica("a", gpus=(0,))], 0) == ["create"]


def external(*urls: str) -> PoolView:
    return pool(1, kind="external", urls=urls)


def test_an_external_engine_is_not_replaced_by_itself() -> None:
    same = old("a", url="http://one")
    assert decided(external("http://one"), [same], 0) == ["keep a"]
    assert decided(external("http://one", "http://two"), [same], 1) == ["keep a", "create"]
    assert decided(external("http://two"), [same], 1) == ["create"]
    assert decided(external("http://two"), [same, replica("n", url="http://two")], 0) == ["stop a"]
    assert decided(replace(external("http://one"), wanted=False), [same], 0) == ["stop a"]


@pytest.mark.parametrize(
    ("one", "replicas", "room", "expected"),
    [
        (pool(), [replica("a"), replica("b"), replica("c")], None, ("settled", "")),
        (pool(), [replica("a"), replica("b"), replica("c", "starting")], None, ("starting", "2 of 3 ready")),
        (pool(), [], None, ("starting", "0 of 3 ready")),
        (pool(), [*OLD3, replica("n", "starting")], None, ("rolling", "0 of 3 replaced")),
        (pool(), [*OLD3[1:], replica("n")], None, ("rolling", "1 of 3 replaced")),
        (pool(1, gpus=(0,)), [old("a")], 0, ("blocked", "0 of 1 replaced; no free device for a new replica, and none may"
         " leave before it")),
        (pool(1, gpus=(0,)), [old("a")], 1, ("rolling", "0 of 1 replaced")),
        (pool(gpus=GPUS), OLD3, 0, ("rolling", "0 of 3 replaced")),
        (pool(), [*OLD3, replica("n", "failed", restarts=3, last_error="exited with 1")], None,
         ("crashing", "n, 3 times in a row: exited with 1")),
        (pool(1), [replica("n", restarts=3)], None, ("settled", "")),
        (replace(pool(), wanted=False), OLD3, None, ("stopping", "3 to go")),
        (replace(pool(), wanted=False), [], None, ("stopped", "")),
    ],
)  # fmt: skip
def test_how_far_it_is(
    one: PoolView, replicas: list[ReplicaView], room: int | None, expected: tuple[Phase, str]
) -> None:
    now = stage(one, replicas, {it.id: RUNS for it in replicas}, room)
    assert (now.phase, now.reason) == expected


@pytest.mark.parametrize(
    ("spec", "scaled_to", "expected"),
    [
        ({}, None, 2),
        ({}, 4, 4),
        ({}, 9, 5),
        ({}, 1, 2),
        ({"autoscaler": "external"}, 4, 2),
        ({"kind": "external", "urls": ("http://a", "http://b", "http://c")}, 4, 3),
    ],
)
def test_how_many_are_wanted(spec: dict[str, Any], scaled_to: int | None, expected: int) -> None:
    one = replace(pool(2, **({"max_replicas": 5} | spec)), scaled_to=scaled_to)
    assert wanted_replicas(one) == expected
    assert wanted_replicas(replace(one, wanted=False)) == 0


class Node:
    """Replicas that do as they are told, a step later each time."""

    def __init__(self, wanted: int, devices: int | None, **spec: Any) -> None:
        self.devices = devices
        gpus = {"gpus": tuple(range(devices))} if devices is not None else {}
        self.pool = pool(wanted, **(gpus | spec))
        booked = [(number,) if devices is not None else () for number in range(wanted)]
        self.replicas = [old(f"old{number}", gpus=gpus) for number, gpus in enumerate(booked)]
        self.names = count()

    @property
    def serving(self) -> int:
        return sum(one.state == "ready" for one in self.replicas)

    @property
    def free(self) -> list[int]:
        used = {gpu for one in self.replicas for gpu in one.gpus}
        return [gpu for gpu in range(self.devices or 0) if gpu not in used]

    @property
    def is_done(self) -> bool:
        states = [(one.state, one.pool_generation) for one in self.replicas]
        return states == [("ready", 2)] * self.pool.spec.replicas

    def step(self) -> None:
        room = len(self.free) if self.devices is not None else None
        actions = size(self.pool, self.replicas, {one.id: RUNS for one in self.replicas}, room)
        self.replicas = [self._grown(one) for one in self.replicas if one.state != "draining"]
        for action in actions:
            if action.act is Act.CREATE:
                self.replicas.append(replica(f"new{next(self.names)}", "starting"))
            else:
                assert action.act is Act.DRAIN
                self.replicas = [
                    replace(one, state="draining") if one.id == action.replica_id else one
                    for one in self.replicas
                ]

    def _grown(self, one: ReplicaView) -> ReplicaView:
        if one.state != "starting":
            return one
        if self.devices is None or one.gpus:
            return replace(one, state="ready", changed_at=NOW + timedelta(seconds=1))
        assert self.free, "it was created although there is no device for it"
        return replace(one, gpus=(self.free[0],))


@pytest.mark.parametrize(
    ("wanted", "spare", "surge", "unavailable"),
    [*product((1, 2, 3, 5), (0, 1, 2, None), (1, 2), (None, 1, 2))],
)  # fmt: skip
def test_a_whole_roll_keeps_serving_within_its_devices(
    wanted: int, spare: int | None, surge: int, unavailable: int | None
) -> None:
    """Duty H42: it ends, never runs more than it may, and misses no replica that it has a device for."""
    node = Node(
        wanted, None if spare is None else wanted + spare, max_surge=surge, max_unavailable=unavailable
    )
    may_miss = node.pool.spec.unavailable_max(wanted) if spare == 0 else 0
    for _ in range(100):
        node.step()
        assert node.serving >= wanted - may_miss
        assert len(node.replicas) <= wanted + surge
        if node.is_done:
            break
    waits_for_leave = (wanted, spare, unavailable) == (1, 0, None)  # the last one
    assert node.is_done != waits_for_leave
    assert len(node.replicas) == wanted
