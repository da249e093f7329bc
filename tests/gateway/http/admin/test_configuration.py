"""Pools, prices, routes, budgets and the list of usage events: what an installation is configured with."""

from __future__ import annotations

from typing import Any

from tests.fakes.engine import FakeEngine
from tests.harness import PRICES, SERVED, SKU, Gateway

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


async def test_a_route_needs_prices_and_prices_never_change(gateway: Gateway) -> None:
    pool_id = (await gateway.admin("POST", "/pools", {"name": "p", "spec": SPEC}))["id"]
    route = {"served_model": "m", "pool_id": pool_id, "sku": "s"}
    assert (await error(gateway, "POST", "/routes", route, 400))["param"] == "sku"
    prices = {
        "sku": "s",
        **PRICES,
        "valid_from": "2026-01-01T00:00:00Z",
        "output_nanousd_per_token": "0.123456",
    }
    made = await gateway.admin("POST", "/prices", prices)
    assert {row["component"]: row["nanousd_per_token"] for row in made["data"]}["output"] == "0.123456"
    await gateway.admin("POST", "/prices", prices, 409)
    one = await gateway.admin("POST", "/routes", route)
    await gateway.admin("POST", "/routes", route, 409)
    assert [row["id"] for row in (await gateway.admin("GET", "/routes"))["data"]] == [one["id"]]
    await gateway.admin("DELETE", f"/routes/{one['id']}")
    assert (await gateway.admin("GET", "/routes"))["data"] == []


async def test_a_new_price_counts_from_its_instant(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    client = gateway.client(tenant).chat.completions
    ask: Any = {"model": SERVED, "messages": [{"role": "user", "content": "hi"}]}
    await client.create(**ask)
    later = {"sku": SKU, **PRICES, "output_nanousd_per_token": "7", "valid_from": "2099-01-01T00:00:00Z"}
    await gateway.admin("POST", "/prices", later)
    now = {"sku": SKU, **PRICES, "output_nanousd_per_token": "5"}
    await gateway.admin("POST", "/prices", now)
    await gateway.refresh()
    await client.create(**ask)
    events = await gateway.events(2)
    assert [event["output_nanousd"] for event in events] == [1000, 5]


async def test_usage_events_page_by_key(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    other = await gateway.tenant("other")
    await gateway.refresh()
    for number in range(7):
        await gateway.client(tenant).completions.create(model=SERVED, prompt="x " * (number + 1))
    await gateway.client(other).completions.create(model=SERVED, prompt="y")
    await gateway.events(8)
    seen: list[dict[str, Any]] = []
    after = ""
    while True:
        page = await gateway.admin("GET", f"/usage_events?project_id={tenant.id}&limit=3{after}")
        seen += page["data"]
        assert len(page["data"]) <= 3
        if not page["has_more"]:
            break
        after = f"&after={page['last_id']}"
    assert [event["completion_tokens"] for event in seen] == [7, 6, 5, 4, 3, 2, 1]
    assert len((await gateway.admin("GET", "/usage_events"))["data"]) == 8
    one = await gateway.admin("GET", f"/usage_events?request_id={seen[0]['request_id']}")
    assert [event["id"] for event in one["data"]] == [seen[0]["id"]]


async def test_a_keys_budget_outlives_its_rotation(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    path = f"/projects/{tenant.id}/api_keys/{tenant.key_id}/rotate"
    rotated = await gateway.admin("POST", path, {"grace_s": 0, "idempotency_key": "x"})
    budget = {"project_id": tenant.id, "key_id": rotated["id"], "period": "daily", "limit_nanousd": 10}
    await gateway.admin("POST", "/budgets", budget)
    await gateway.refresh()
    body = {"model": SERVED, "messages": [{"role": "user", "content": "hi"}]}
    answer = await gateway.request("POST", "/v1/chat/completions", body, rotated["value"])
    assert answer.status == 429
    unknown = budget | {"key_id": "key_none"}
    await gateway.admin("POST", "/budgets", unknown, 404)
