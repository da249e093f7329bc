"""Pools: what should run."""

from __future__ import annotations

from typing import Any

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
        "node": "n",
        "url": None,
        "state": "failed",
        "restarts": 2,
        "last_error": "no such file",
        "ready_at": None,
    }
    listed = (await gateway.admin("GET", "/pools"))["data"]
    assert {pool["id"]: len(pool["replicas"]) for pool in listed} == {waiting["id"]: 0, pool_id: 2}
