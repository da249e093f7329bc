"""Prices: versions that count from their instant, for ever readable, never changed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gateway.http.admin.pricing import PriceBody
from gateway.ids import TenantId
from tests.fakes.clock import WallClock
from tests.fakes.engine import FakeEngine
from tests.harness import PRICES, SERVED, SKU, Gateway

ASK: Any = {"model": SERVED, "messages": [{"role": "user", "content": "hi"}]}
COMPONENTS = {"input", "cached_input", "output", "batch_input", "batch_cached_input", "batch_output"}


@pytest.fixture
async def dated(
    database_url: str, cache_url: str, tmp_path: Path
) -> AsyncIterator[tuple[Gateway, WallClock]]:
    clock = WallClock()
    running = Gateway(database_url, cache_url, tmp_path, clock=clock)
    async with running:
        yield running, clock
    await running.audit()


async def post(gateway: Gateway, status: int = 200, **changes: Any) -> Any:
    return await gateway.admin("POST", "/prices", {"sku": SKU, **PRICES, **changes}, status)


async def test_a_new_price_counts_from_its_instant(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    client = gateway.client(tenant).chat.completions
    await client.create(**ASK)
    await post(gateway, output_nanousd_per_token="7", valid_from="2099-01-01T00:00:00Z")
    await post(gateway, output_nanousd_per_token="5")
    await gateway.refresh()
    await client.create(**ASK)
    events = await gateway.events(2)
    assert [event["output_nanousd"] for event in events] == [1000, 5]


async def test_a_request_pays_the_price_of_its_side_of_the_boundary(
    dated: tuple[Gateway, WallClock], engine: FakeEngine
) -> None:
    """The last microsecond before the instant still pays the old price, the instant itself the new one."""
    gateway, clock = dated
    tenant = await gateway.serve(engine)
    client = gateway.client(tenant).chat.completions
    change = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)
    announced = await post(gateway, output_nanousd_per_token="7", valid_from=change.isoformat())
    await gateway.refresh()
    for at in (change - timedelta(microseconds=1), change, change - timedelta(microseconds=1)):
        clock.set(at)
        await client.create(**ASK)
    new_id = {row["component"]: int(row["id"]) for row in announced["data"]}["output"]
    rows = await gateway.events(3)
    assert [(row["output_nanousd"], row["price_output_id"] == new_id) for row in rows] == [
        (1000, False),
        (1000, False),
        (7, True),
    ], "in order of their instants"


async def test_batch_requests_pay_their_own_components(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    made = await post(gateway, batch_factor="0.25", batch_output_nanousd_per_token="3")
    rows = {row["component"]: row for row in made["data"]}
    assert rows.keys() == COMPONENTS
    assert {
        name: rows[f"batch_{name}"]["nanousd_per_token"] for name in ("input", "cached_input", "output")
    } == {
        "input": "25.000000",
        "cached_input": "2.500000",
        "output": "3.000000",
    }
    await gateway.refresh()
    target = gateway.app.catalogue.resolve(TenantId(tenant.id), SERVED)
    assert target is not None
    assert str(target.prices_for("batch").output_id) == rows["batch_output"]["id"]
    assert str(target.prices_for("interactive").output_id) == rows["output"]["id"]


def test_a_batch_price_is_rounded_down() -> None:
    body = PriceBody.model_validate({"sku": "s", **PRICES, "output_nanousd_per_token": "0.000003"})
    assert str(body.components()["batch_output"]) == "0.000001"


async def test_history_and_conflicts(gateway: Gateway) -> None:
    first = await post(gateway)
    assert all(row["valid_until"] is None for row in first["data"])
    begins = "2098-01-01T00:00:00Z"
    await post(gateway, valid_from=begins, input_nanousd_per_token="0")
    again = await post(gateway, 409, valid_from=begins)
    assert "moment later" in again["error"]["message"]
    past = await post(gateway, 400, valid_from="2026-01-01T00:00:00Z")
    assert past["error"]["param"] == "valid_from"
    assert len(await gateway.sql("SELECT id FROM price")) == 12, "a refused version leaves no row"
    await gateway.admin("POST", "/prices", {"sku": SKU, "output_nanousd_per_token": "1"}, 400)
    seen: list[dict[str, Any]] = []
    after, pages = "", 0
    while True:
        page = await gateway.admin("GET", f"/prices?sku={SKU}&limit=5{after}")
        seen, pages, after = seen + page["data"], pages + 1, f"&after={page['last_id']}"
        if not page["has_more"]:
            break
    assert (pages, len(seen), len({row["id"] for row in seen})) == (3, 12, 12)
    old, new = [row for row in reversed(seen) if row["component"] == "input"]
    assert (old["nanousd_per_token"], old["valid_until"]) == ("100.000000", new["valid_from"])
    assert (new["nanousd_per_token"], new["valid_until"]) == ("0.000000", None)
    in_force = await gateway.admin("GET", f"/prices?component=input&at={new['valid_from']}")
    assert in_force["data"] == [new]
    for wrong in ("after=x", "component=tea", "at=-1"):
        await gateway.admin("GET", f"/prices?{wrong}", status=400)


async def test_prices_are_audited(gateway: Gateway) -> None:
    await post(gateway)
    [row] = await gateway.sql("SELECT details::text FROM audit_log WHERE action = 'price.created'")
    assert '"output": "1000.000000"' in row["details"]
