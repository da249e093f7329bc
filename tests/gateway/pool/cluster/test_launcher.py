"""The supervisor on a Kubernetes cluster: start, roll, drain, scale, crash, adopt, and an API server that fails."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import yaml
from sqlalchemy import text

from gateway.ids import ReplicaId
from gateway.pool.cluster.manifest import name_of
from gateway.pool.launcher import Assignment, LaunchError, LauncherUnavailable
from gateway.pool.repository import LeaseLost
from tests.gateway.pool.cluster.conftest import IMAGE, Yard, spec
from tests.patience import LONG_S
from tests.tidy.tree import ROOT


async def test_it_starts_waits_and_publishes_by_the_name_of_its_pod(yard: Yard) -> None:
    yard.cluster.starts_as = "starting"
    await yard.want(spec())
    (starting,) = await yard.until(lambda all_: bool(all_) and all_[0].url is not None)
    await yard.supervisor.step()
    assert [one.state for one in await yard.replicas()] == ["starting"]
    (pod,) = yard.cluster.pods.values()
    pod.state = "ready"
    (ready,) = await yard.until_ready()
    assert ready.url == f"http://{pod.name}.tollway-engines.tollway.svc:{yard.cluster.port}"
    assert (ready.id, ready.epoch) == (starting.id, pod.epoch())


async def test_a_container_that_its_kubelet_starts_again_is_another_life(yard: Yard) -> None:
    await yard.want(spec())
    (before,) = await yard.until_ready()
    (pod,) = yard.cluster.pods.values()
    yard.cluster.crash(pod, 137, loops=False)
    (after,) = await yard.until(lambda all_: all_[0].epoch != before.epoch and all_[0].state == "ready")
    assert (after.restarts, after.id) == (0, before.id)


async def test_a_crash_loop_is_ended_told_and_begun_again(yard: Yard) -> None:
    yard.cluster.breaks_with = {"code": 3, "message": "loading\nno such model\n"}
    await yard.want(spec())
    (failed,) = await yard.until(lambda all_: bool(all_) and all_[0].restarts >= 2)
    assert failed.last_error == "exited with 3: no such model"
    yard.cluster.breaks_with = None
    (ready,) = await yard.until_ready()
    assert ready.id == failed.id
    assert len(yard.cluster.created) >= 3
    assert len({one["metadata"]["name"] for one in yard.cluster.created}) == 1


async def test_why_a_container_was_killed_is_told(yard: Yard) -> None:
    yard.cluster.breaks_with = {"code": 137, "reason": "OOMKilled"}
    await yard.want(spec())
    (failed,) = await yard.until(lambda all_: bool(all_) and all_[0].state == "failed")
    assert failed.last_error == "exited with 137: OOMKilled"


async def test_a_roll_goes_one_by_one_and_cuts_nobody(yard: Yard) -> None:
    await yard.want(spec(min_replicas=3))
    before = await yard.until_ready(3)
    for pod in yard.cluster.pods.values():
        pod.busy = True
    other = IMAGE.replace("engine@", "newer@")
    await yard.want(spec(min_replicas=3, kubernetes={"image": other}), generation=2)
    old = {name_of(one.id) + "-0" for one in before}
    gone: list[str] = []
    for _ in range(3):
        # One more than wanted at most: a new one is ready before an old one is told to go.
        await yard.until(lambda _: len(yard.cluster.drains) > len(gone))
        (leaving,) = set(yard.cluster.drains) - set(gone)
        assert leaving in old
        others = [pod for pod in yard.cluster.pods.values() if pod.name != leaving]
        assert sum(pod.state == "ready" for pod in others) >= 3
        states = {one.id: one.state for one in await yard.replicas()}
        assert sorted(states.values()).count("draining") == 1
        await yard.supervisor.step()
        assert leaving in yard.cluster.pods, "it has requests to finish"
        yard.cluster.finish(yard.cluster.pods[leaving])
        gone.append(leaving)
    after = await yard.until(lambda all_: [one.state for one in all_] == ["ready"] * 3)
    assert not {one.epoch for one in before} & {one.epoch for one in after}
    images = [one.body["spec"]["containers"][0]["image"] for one in yard.cluster.pods.values()]
    assert images == [other] * 3


async def test_it_scales_both_ways_and_stops(yard: Yard) -> None:
    await yard.want(spec(min_replicas=1))
    await yard.until_ready(1)
    await yard.want(spec(min_replicas=3))
    await yard.until_ready(3)
    assert len(yard.cluster.pods) == 3
    await yard.want(spec(min_replicas=1))
    await yard.until_ready(1)
    await yard.want(spec(), state="stopped")
    await yard.until(lambda all_: all_ == [])
    assert (yard.cluster.pods, yard.cluster.objects) == ({}, {})


async def test_a_drained_engine_is_not_started_again(yard: Yard) -> None:
    """It exits by itself, and a StatefulSet would have it back."""
    await yard.want(spec())
    await yard.until_ready()
    (pod,) = yard.cluster.pods.values()
    pod.busy = True
    await yard.want(spec(), state="stopped")
    await yard.until(lambda all_: [one.state for one in all_] == ["draining"])
    await yard.supervisor.step()
    (seen,) = yard.cluster.objects.values()
    assert seen["spec"]["replicas"] == 0
    assert list(yard.cluster.pods) == [pod.name]
    yard.cluster.finish(pod)
    await yard.until(lambda all_: all_ == [])
    assert len(yard.cluster.created) == 1


async def test_a_pod_that_its_node_evicts_comes_back_under_its_name(yard: Yard) -> None:
    await yard.want(spec())
    (before,) = await yard.until_ready()
    yard.cluster.evict(next(iter(yard.cluster.pods.values())))
    (after,) = await yard.until(lambda all_: all_[0].state == "ready" and all_[0].epoch != before.epoch)
    assert after.url == before.url


async def test_a_later_supervisor_adopts_what_runs_and_ends_what_nobody_knows(yard: Yard) -> None:
    await yard.want(spec(min_replicas=2))
    before = await yard.until_ready(2)
    orphan = ReplicaId("rep_orphan")
    await yard.launcher().launch(orphan, "gone", spec(), Assignment("http://nobody", ()))
    async with yard.database.write() as session:  # as if it had been killed between the start and its writing
        await session.execute(text("UPDATE replica SET state = 'starting', epoch = NULL"))
    yard.supervisor = yard.another()
    after = await yard.until_ready(2)
    assert {(one.id, one.epoch) for one in after} == {(one.id, one.epoch) for one in before}
    assert name_of(orphan) not in {name for _, name in yard.cluster.objects}
    assert len(yard.cluster.created) == 3


async def test_two_supervisors_start_nothing_twice(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.pool.supervisor.own_identity", lambda: "elsewhere/1/1")
    second = yard.another()
    await yard.want(spec(min_replicas=2))
    await yard.until(lambda all_: [one.state for one in all_] == ["ready"] * 2, by=(yard.supervisor, second))
    assert len(yard.cluster.created) == 2
    async with yard.database.write() as session:  # the first is paused past its lease
        await session.execute(text("UPDATE supervisor_lease SET expires_at = now() - interval '1 s'"))
    await second.step()
    await yard.want(spec(min_replicas=3))
    with pytest.raises(LeaseLost):
        await yard.supervisor.step()
    assert len(yard.cluster.created) == 2
    await yard.until(lambda all_: [one.state for one in all_] == ["ready"] * 3, by=(second,))


@pytest.mark.parametrize("status", [429, 500, 503, 504])
async def test_a_server_that_fails_costs_no_replica(yard: Yard, status: int) -> None:
    await yard.want(spec(min_replicas=2))
    before = await yard.until_ready(2)
    headers = {"Retry-After": "0"} if status == 429 else {}
    yard.cluster.misbehave("list", "pods", status, times=3, headers=headers)
    yard.cluster.misbehave("list", "statefulsets", status, times=3, headers=headers)
    await yard.until(lambda _: not yard.cluster.faults)
    after = await yard.until_ready(2)
    assert [(one.epoch, one.restarts) for one in after] == [(one.epoch, 0) for one in before]
    assert len(yard.cluster.created) == 2


@pytest.mark.parametrize("carried_out", [True, False])
async def test_a_start_of_unknown_outcome_is_begun_once_more(
    yard: Yard, carried_out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is lost; whether or not the object is there, there is one in the end."""
    yard.cluster.misbehave("create", "statefulsets", 504, after=carried_out)
    await yard.want(spec())
    (failed,) = await yard.until(lambda all_: bool(all_) and all_[0].restarts == 1)
    assert failed.last_error == "the cluster: 504 Gateway Timeout"
    await yard.until_ready()
    assert len(yard.cluster.objects) == 1
    assert len(yard.cluster.created) == 1 + carried_out


async def test_a_name_that_is_taken_is_no_second_engine(yard: Yard) -> None:
    launcher, replica = yard.launcher(), ReplicaId("rep_1")
    await launcher.launch(replica, "stub", spec(), Assignment("http://one", ()))
    with pytest.raises(LaunchError, match="there is a StatefulSet rep-1 already"):
        await launcher.launch(replica, "stub", spec(), Assignment("http://one", ()))


async def test_a_server_that_hangs_is_given_up(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    await yard.want(spec())
    (before,) = await yard.until_ready()
    monkeypatch.setattr("gateway.pool.cluster.api.TIMEOUT_S", 0.2)
    yard.cluster.misbehave("list", "statefulsets", hang=True)
    await yard.supervisor.step()
    assert not yard.cluster.faults
    monkeypatch.setattr("gateway.pool.cluster.api.TIMEOUT_S", 60.0)
    (after,) = await yard.until_ready()
    assert (after.epoch, after.restarts) == (before.epoch, 0)


async def test_a_server_that_hangs_is_waited_for_once_however_many_replicas_there_are(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a handful of them would outlast the supervisor's lease."""
    await yard.want(spec(min_replicas=4))
    before = await yard.until_ready(4)
    monkeypatch.setattr("gateway.pool.cluster.api.TIMEOUT_S", 0.2)
    monkeypatch.setattr("gateway.pool.cluster.api.PAUSE_S", LONG_S)
    yard.cluster.misbehave("list", "statefulsets", hang=True, times=8)
    await yard.supervisor.step()
    assert len(yard.cluster.faults) == 7
    assert [(one.epoch, one.state) for one in await yard.replicas()] == [
        (one.epoch, "ready") for one in before
    ]


async def test_what_cannot_be_ended_now_is_ended_later(yard: Yard) -> None:
    await yard.want(spec())
    await yard.until_ready()
    await yard.want(spec(), state="stopped")
    yard.cluster.misbehave("delete", "statefulsets", 500, times=2)
    yard.cluster.misbehave("delete", "pods", 409)
    yard.cluster.misbehave("patch", "statefulsets", 409)
    yard.cluster.misbehave("patch", "statefulsets", 503)
    await yard.until(lambda all_: all_ == [])
    assert (yard.cluster.pods, yard.cluster.objects) == ({}, {})


async def test_the_pod_of_a_dead_node_is_taken_out_of_the_books(yard: Yard) -> None:
    launcher, replica = yard.launcher(), ReplicaId("rep_1")
    await launcher.launch(replica, "stub", spec(), Assignment("http://one", ()))
    yard.cluster.node_is_dead = True
    with pytest.raises(LauncherUnavailable, match="rep-1 is still ending"):
        await launcher.kill(replica, None)
    (pod,) = yard.cluster.pods.values()
    long_ago = datetime.now(UTC) - timedelta(minutes=1)
    pod.body["metadata"]["deletionTimestamp"] = long_ago.isoformat(timespec="seconds")
    await launcher.kill(replica, None)
    assert yard.cluster.pods == {}


async def test_several_hosts_are_one_replica(yard: Yard) -> None:
    shape = spec(
        kind="vllm", model="/models/large", tensor_parallel=8, pipeline_parallel=2,
        kubernetes={"image": IMAGE, "hosts": 2, "gpus_per_host": 8},
    )  # fmt: skip
    await yard.want(shape)
    (ready,) = await yard.until_ready()
    name = name_of(ready.id)
    assert ready.url == f"http://{name}-0.{name}.tollway.svc:{yard.cluster.port}"
    assert sorted(yard.cluster.pods) == [f"{name}-0", f"{name}-0-1"]
    await yard.want(shape, state="stopped")
    await yard.until(lambda all_: all_ == [])
    assert (yard.cluster.pods, yard.cluster.objects) == ({}, {})


async def test_pools_of_machines_are_not_a_clusters(yard: Yard) -> None:
    await yard.want(spec(kubernetes=None))
    for _ in range(2):
        await yard.supervisor.step()
    assert (await yard.replicas(), yard.cluster.created) == ([], [])


async def test_the_role_allows_what_is_called_and_nothing_else(yard: Yard) -> None:
    """Every verb that a life of all shapes needs, against the Role that `deploy/` grants."""
    for at, kind in enumerate(("tollway", "vllm")):
        needs = {"image": IMAGE, "hosts": 1 + at}
        await yard.want(spec(kind=kind, kubernetes=needs), generation=1 + at)
        await yard.until(
            lambda all_, at=at: [(one.state, one.pool_generation) for one in all_] == [("ready", 1 + at)]
        )
    await yard.want(spec(kind="vllm", kubernetes={"image": IMAGE, "hosts": 2}), state="stopped")
    await yard.until(lambda all_: all_ == [])
    launcher, replica = yard.launcher(), ReplicaId("rep_2")
    for hosts, kind in ((1, "vllm"), (2, "vllm")):
        needs = {"image": IMAGE, "hosts": hosts}
        await launcher.launch(replica, "stub", spec(kind=kind, kubernetes=needs), Assignment("http://x", ()))
        for pod in yard.cluster.pods.values():
            pod.busy = True
        await launcher.kill(replica, None)
    granted = {
        (verb, group, resource) for rule in _rules() for verb in rule["verbs"]
        for group in rule["apiGroups"] for resource in rule["resources"]
    }  # fmt: skip
    assert granted == set(yard.cluster.calls)


def _rules() -> list[dict[str, list[str]]]:
    path = ROOT / "deploy/kustomize/components/cluster-pools/role.yaml"
    found = {one["kind"]: one for one in yaml.safe_load_all(path.read_text(encoding="utf-8"))}
    rules: list[dict[str, list[str]]] = found["Role"]["rules"]
    return rules
