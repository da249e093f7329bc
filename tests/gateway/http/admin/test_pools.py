"""Pools: what should run."""

from __future__ import annotations

from typing import Any

from gateway.ids import PoolId
from gateway.pool.repository import PoolRepository
from tests.fakes.engine import FakeEngine
from tests.harness import Gateway

SPEC = {"model": "/models/m.gguf", "served_names": ["m"]}


async def error(gateway: Gateway, method: str, path: str, body: Any, status: int) -> dict[str, Any]:
    answer: dict[str, Any] = await gateway.admin(method, path, body, status)
    return answer["error"]


async def test_pools(gateway: Gateway) -> None:
    pool = await gateway.admin("POST", "/pools", {"name": "p", "spec": SPEC})
    assert (pool["spec"], pool["desired_state"], pool["generation"]) == (SPEC, "running", 1)
    assert (await error(gateway, "POST", "/pools", {"name": "p", "spec": SPEC}, 409))["code"] is None
    stopped = await gateway.admin("POST", f"/pools/{pool['id']}", {"desired_state": "stopped"})
    assert stopped["desired_state"] == "stopped"
    assert [found["id"] for found in (await gateway.admin("GET", "/pools"))["data"]] == [pool["id"]]
    await gateway.admin("GET", "/pools/none", status=404)
    reserved = {"name": "q", "spec": SPEC, "reserved_projects": ["proj_none"]}
    assert (await error(gateway, "POST", "/pools", reserved, 400))["param"] == "reserved_projects"


async def test_a_replica_shows_what_it_last_said_about_its_work(gateway: Gateway, engine: FakeEngine) -> None:
    await gateway.serve(engine)
    await gateway.poll()
    [replica] = (await gateway.admin("GET", "/replicas"))["data"]
    assert replica["load"] == {"running": 0, "waiting": 0, "kv_usage": 0.0}
    await gateway.sql("UPDATE replica SET state = 'lost'")
    [replica] = (await gateway.admin("GET", "/replicas"))["data"]
    assert replica["load"] is None  # what it said is of no use any more


async def test_a_pool_shows_how_its_replicas_are(gateway: Gateway) -> None:
    waiting = await gateway.admin("POST", "/pools", {"name": "p", "spec": SPEC})
    assert waiting["replicas"] == []
    pool_id = await gateway.pool(FakeEngine(), name="q")
    await gateway.sql(
        "INSERT INTO replica (id, pool_id, node, state) VALUES ('replica_old', $1, 'n', 'stopped')", pool_id
    )
    await gateway.sql(
        "INSERT INTO replica (id, pool_id, node, state, restarts, last_error)"
        " VALUES ('replica_zzz', $1, 'n', 'failed', 2, 'no such file')",
        pool_id,
    )
    ready, failed = (await gateway.admin("GET", f"/pools/{pool_id}"))["replicas"]
    assert (ready["state"], ready["last_error"], ready["restarts"]) == ("ready", None, 0)
    assert failed == {
        "object": "organization.pool.replica",
        "id": "replica_zzz",
        "pool_id": pool_id,
        "gpus": [],
        "devices": [],
        "generation": 1,
        "created_at": failed["created_at"],
        "node": "n",
        "url": None,
        "state": "failed",
        "restarts": 2,
        "last_error": "no such file",
        "ready_at": None,
        "load": None,
    }
    listed = (await gateway.admin("GET", "/pools"))["data"]
    assert {pool["id"]: len(pool["replicas"]) for pool in listed} == {waiting["id"]: 0, pool_id: 2}
    listed = (await gateway.admin("GET", f"/replicas?pool_id={pool_id}&limit=2"))["data"]
    rest = (await gateway.admin("GET", f"/replicas?pool_id={pool_id}&after={listed[-1]['id']}"))["data"]
    assert {one["state"] for one in listed + rest} == {"ready", "failed", "stopped"}, "the stopped one too"
    assert await gateway.admin("GET", "/replicas/replica_zzz") == failed
    await gateway.admin("GET", "/replicas/none", status=404)


async def test_a_pool_shows_how_far_each_node_is(gateway: Gateway) -> None:
    pool_id = (await gateway.admin("POST", "/pools", {"name": "p", "spec": SPEC}))["id"]
    await gateway.admin("POST", "/pools", {"name": "q", "spec": SPEC})
    await gateway.sql(
        "INSERT INTO pool_node (pool_id, node, phase, reason, since, replicas, scaled_at, scaled_for)"
        " VALUES ($1, 'n', 'rolling', '1 of 3 replaced', to_timestamp(1700000000), 3, to_timestamp(1600000000), 'a queue')",
        pool_id,
    )
    node = {"node": "n", "phase": "rolling", "reason": "1 of 3 replaced", "since": 1_700_000_000}
    node |= {"wanted_replicas": 1, "replicas": 3, "scaled_at": 1_600_000_000, "scaled_for": "a queue"}
    assert (await gateway.admin("GET", f"/pools/{pool_id}"))["nodes"] == [node]
    listed = (await gateway.admin("GET", "/pools"))["data"]
    assert [pool["nodes"] for pool in listed] == [[], [node]]


async def test_a_node_shows_how_many_replicas_it_keeps(gateway: Gateway) -> None:
    """The autoscaler's number within the specification's bounds as they are now; without an autoscaler of ours the
    specification's; none of a pool that is stopped."""
    pool_id = (await gateway.admin("POST", "/pools", {"name": "p", "spec": SPEC}))["id"]
    await gateway.sql(
        "INSERT INTO pool_node (pool_id, node, phase, reason, since, replicas) VALUES ($1, 'n', 'settled', '', now(), 7)",
        pool_id,
    )

    async def kept(change: dict[str, object]) -> int:
        [node] = (await gateway.admin("POST", f"/pools/{pool_id}", change))["nodes"]
        assert node["replicas"] == 7, "what was chosen stays told"
        return int(node["wanted_replicas"])

    assert await kept({"min_replicas": 2, "max_replicas": 9}) == 7
    assert await kept({"max_replicas": 5}) == 5
    assert await kept({"min_replicas": 8, "max_replicas": 9}) == 8
    assert await kept({"spec": SPEC | {"min_replicas": 2, "max_replicas": 9, "autoscaler": "external"}}) == 2
    assert await kept({"desired_state": "stopped"}) == 0


async def test_a_change_replaces_replicas_only_if_it_must(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    path = f"/pools/{(await gateway.admin('POST', '/pools', {'name': 'p', 'spec': SPEC}))['id']}"
    await gateway.admin("POST", "/pools", {"name": "taken", "spec": SPEC})
    for change, generation in (
        ({"name": "renamed"}, 1),
        ({"min_replicas": 2, "max_replicas": 3}, 1),
        ({"traffic": {"strategy": "round_robin", "total_timeout_s": 60}}, 1),
        ({"reserved_projects": [tenant.id]}, 1),
        ({"desired_state": "stopped"}, 1),
        ({"spec": SPEC | {"min_replicas": 2, "max_replicas": 3, "max_surge": 2, "max_unavailable": 1}}, 1),
        ({"spec": SPEC | {"autoscaler": "external", "scaling": {"cooldown_s": 5}, "max_replicas": 3}}, 1),
        ({"spec": SPEC | {"flags": {"max-num-seqs": 4}, "min_replicas": 2, "max_replicas": 3}}, 2),
        ({"traffic": {"total_timeout_s": None}}, 2),
        ({}, 2),
    ):
        pool = await gateway.admin("PATCH", path, change)
        assert pool["generation"] == generation, change
    assert pool["name"] == "renamed"
    assert (pool["spec"]["min_replicas"], pool["spec"]["max_replicas"]) == (2, 3)
    assert pool["traffic"]["strategy"] == "round_robin", "what is not given stays"
    assert pool["traffic"]["total_timeout_s"] is None
    assert (pool["reserved_projects"], pool["desired_state"]) == ([tenant.id], "stopped")
    rows = await gateway.sql("SELECT details::text FROM audit_log WHERE action = 'pool.updated'")
    assert len(rows) == 9, "a change that changes nothing leaves no row"
    for wrong, param in (
        ({"min_replicas": 9}, "min_replicas"),
        ({"traffic": {"strategy": "best"}}, "traffic.strategy"),
        ({"reserved_projects": ["proj_none"]}, "reserved_projects"),
        ({"id": "x"}, "id"),
    ):
        assert (await error(gateway, "PATCH", path, wrong, 400))["param"] == param
    await gateway.admin("PATCH", path, {"name": "taken"}, 409)
    await gateway.admin("PATCH", "/pools/none", {}, 404)


async def test_a_pool_goes_once_no_route_leads_to_it(gateway: Gateway, engine: FakeEngine) -> None:
    pool_id = await gateway.pool(engine)
    await gateway.route(pool_id)
    await gateway.admin("DELETE", f"/pools/{pool_id}", status=409)
    [route] = (await gateway.admin("GET", "/routes"))["data"]
    await gateway.admin("DELETE", f"/routes/{route['id']}")
    assert (await gateway.admin("DELETE", f"/pools/{pool_id}"))["deleted"]
    assert (await gateway.admin("GET", "/pools"))["data"] == []
    for method in ("GET", "PATCH", "DELETE"):
        await gateway.admin(method, f"/pools/{pool_id}", {} if method == "PATCH" else None, 404)
    again = {"served_model": "m", "pool_id": pool_id, "sku": "sku-1"}
    assert (await error(gateway, "POST", "/routes", again, 400))["param"] == "pool_id"
    await gateway.pool(engine, name="pool")  # the name is free again
    async with gateway.app.database.read() as session:
        wanted = {pool.id: pool.wanted for pool in await PoolRepository().pools(session)}
    assert wanted[PoolId(pool_id)] is False, "its supervisor lets the replicas go"
