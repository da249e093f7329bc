"""Prices count from their instant."""

from __future__ import annotations

from typing import Any

from tests.fakes.engine import FakeEngine
from tests.harness import PRICES, SERVED, SKU, Gateway

SPEC = {"model": "/models/m.gguf", "served_names": ["m"]}


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
