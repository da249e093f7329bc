"""Calls to an API server: pages that expire, a server that is busy, objects that are others by now."""

from __future__ import annotations

import asyncio

import pytest

from gateway.ids import ReplicaId
from gateway.pool.launcher import Assignment, LauncherUnavailable
from tests.fakes.cluster import Cluster
from tests.gateway.pool.cluster.conftest import Yard, api_of, spec


async def test_it_asks_no_earlier_than_it_is_told(yard: Yard) -> None:
    launcher = yard.launcher()
    yard.cluster.misbehave("list", "statefulsets", 429, headers={"Retry-After": "60"})
    with pytest.raises(LauncherUnavailable, match="429"):
        await launcher.strays([])
    calls = yard.cluster.calls.total()
    for _ in range(3):
        with pytest.raises(LauncherUnavailable, match="left alone"):
            await launcher.strays([])
    assert yard.cluster.calls.total() == calls


async def test_a_list_that_expires_is_begun_anew(yard: Yard) -> None:
    """The server forgets between two pages where they were: 410."""
    await yard.want(spec(min_replicas=3))
    before = await yard.until_ready(3)
    yard.cluster.misbehave("list", "pods", 410)
    yard.cluster.misbehave("list", "statefulsets", 410)
    assert await yard.launcher().strays([]) == tuple(sorted(one.id for one in before))
    assert not yard.cluster.faults


async def test_another_supervisors_object_of_the_same_name_is_spared(yard: Yard) -> None:
    launcher, replica = yard.launcher(), ReplicaId("rep_1")
    await launcher.launch(replica, "stub", spec(), Assignment("http://one", ()))
    api = yard.apis[-1]
    (seen,) = await api.workloads("app.kubernetes.io/managed-by=tollway-pool")
    await launcher.kill(replica, None)
    await launcher.launch(replica, "stub", spec(), Assignment("http://one", ()))
    for call in (api.delete, api.empty):
        with pytest.raises(LauncherUnavailable, match="409"):
            await call(seen)
    (other,) = await api.workloads("app.kubernetes.io/managed-by=tollway-pool")
    assert (other.uid != seen.uid, other.replicas) == (True, 1)


async def test_a_foreign_token_is_told_and_costs_nothing(cluster: Cluster, yard: Yard) -> None:
    api = api_of(cluster, token="another")
    with pytest.raises(LauncherUnavailable, match="401"):
        await asyncio.wait_for(api.pods("a=b"), 60)
    await api.close()
