"""Pools: what should run."""

from __future__ import annotations

from typing import Any

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
