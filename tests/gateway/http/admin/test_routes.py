"""Routes: a served name leads to a pool only with prices."""

from __future__ import annotations

from typing import Any

import asyncpg
import orjson
import pytest

from tests.fakes.engine import FakeEngine
from tests.harness import PRICES, SERVED, Gateway

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


async def test_a_route_is_published_only_while_its_prices_are_in_force(gateway: Gateway) -> None:
    """Announced prices are not enough: until they begin, a request would have none."""
    pool_id = (await gateway.admin("POST", "/pools", {"name": "p", "spec": SPEC}))["id"]
    route = {"served_model": "m", "pool_id": pool_id, "sku": "s"}
    later = {"sku": "s", **PRICES, "valid_from": "2099-01-01T00:00:00Z"}
    await gateway.admin("POST", "/prices", later)
    refused = await error(gateway, "POST", "/routes", route, 400)
    assert "2099-01-01" in refused["message"]
    hidden = await gateway.admin("POST", "/routes", route | {"published": False})
    assert not hidden["published"]
    path, publish = f"/routes/{hidden['id']}", {"published": True}
    assert (await error(gateway, "POST", path, publish, 400))["param"] == "sku"
    tenant = await gateway.tenant()
    await gateway.refresh()
    models = gateway.client(tenant).models
    assert [model.id async for model in models.list()] == []
    await gateway.admin("POST", "/prices", {"sku": "s", **PRICES, "output_nanousd_per_token": "0"})
    assert (await gateway.admin("POST", path, publish))["published"]
    await gateway.refresh()
    assert [model.id async for model in models.list()] == ["m"]
    await gateway.admin("POST", path, {"published": False})
    await gateway.admin("POST", "/routes/none", publish, 404)
    await gateway.refresh()
    assert [model.id async for model in models.list()] == []
    rows = await gateway.sql("SELECT details::text FROM audit_log WHERE action = 'route.updated' ORDER BY id")
    changes = [orjson.loads(row["details"]) for row in rows]
    assert [(one["before"]["published"], one["after"]["published"]) for one in changes] == [
        (False, True),
        (True, False),
    ]


async def test_a_route_is_led_elsewhere(gateway: Gateway) -> None:
    first, second = [
        (await gateway.admin("POST", "/pools", {"name": name, "spec": SPEC}))["id"] for name in ("p", "q")
    ]
    for sku in ("s", "t"):
        await gateway.admin("POST", "/prices", {"sku": sku, **PRICES})
    made = await gateway.admin("POST", "/routes", {"served_model": "m", "pool_id": first, "sku": "s"})
    path = f"/routes/{made['id']}"
    change = {"pool_id": second, "sku": "t", "default_max_output": 7}
    assert await gateway.admin("PATCH", path, change) == made | change
    assert await gateway.admin("GET", path) == made | change
    for wrong, param in (
        ({"pool_id": "none"}, "pool_id"),
        ({"sku": "none"}, "sku"),
        ({"served_model": "x"}, None),
    ):
        answer = await error(gateway, "PATCH", path, wrong, 400)
        assert answer["param"] == (param or "served_model")
    await gateway.refresh()
    tenant = await gateway.tenant()
    assert gateway.target(tenant, "m").pool_id == second
    assert gateway.target(tenant, "m").default_max_output == 7
    [row] = await gateway.sql("SELECT details::text FROM audit_log WHERE action = 'route.updated'")
    details = orjson.loads(row["details"])
    assert details["before"] | change == details["after"]
    assert details["before"] != details["after"]


async def test_the_database_refuses_a_route_whose_price_is_still_to_come(gateway: Gateway) -> None:
    await gateway.admin("POST", "/pools", {"name": "p", "spec": SPEC})
    await gateway.admin("POST", "/prices", {"sku": "s", **PRICES, "valid_from": "2099-01-01T00:00:00Z"})
    with pytest.raises(asyncpg.CheckViolationError, match="lacks a price"):
        await gateway.sql(
            "INSERT INTO route (id, served_model, pool_id, sku) SELECT 'r', 'm', id, 's' FROM pool"
        )


async def test_who_asks_for_no_maximum_gets_the_routes(gateway: Gateway, engine: FakeEngine) -> None:
    """The engine is told, so that it cannot exceed the hold; a caller's own maximum may be above it."""
    pool_id = await gateway.pool(engine)
    await gateway.route(pool_id, default_max_output=7)
    tenant = await gateway.tenant()
    await gateway.refresh()
    ask: dict[str, Any] = {"model": SERVED, "messages": [{"role": "user", "content": "hi"}]}
    for body in (ask, ask | {"max_tokens": 9}):
        assert (await gateway.request("POST", "/v1/chat/completions", body, tenant.key)).status == 200
    assert [seen.headers["x-max-output-tokens"] for seen in engine.requests] == ["7", "9"]
