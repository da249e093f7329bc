"""Routes: a served name leads to a pool only with prices."""

from __future__ import annotations

from typing import Any

from tests.harness import PRICES, Gateway

SPEC = {"model": "/models/m.gguf", "served_names": ["m"]}


async def error(gateway: Gateway, method: str, path: str, body: Any, status: int) -> dict[str, Any]:
    answer: dict[str, Any] = await gateway.admin(method, path, body, status)
    return answer["error"]


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
