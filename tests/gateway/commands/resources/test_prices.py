"""Prices by the command line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any


async def test_prices(admin: Callable[..., Awaitable[Any]]) -> None:
    made = await admin("prices", "create", "llama", "--input", "0.15", "--output", "0.60")
    costs = {one["component"]: Decimal(one["nanousd_per_token"]) for one in made}
    assert (costs["input"], costs["cached_input"], costs["output"]) == (150, 150, 600)
    await admin("prices", "create", "llama", "--input", "0.2", "--output", "0.6", "--cached-input", "0.02")
    found = await admin("prices", "list", "--sku", "llama")
    now = {one["component"]: Decimal(one["nanousd_per_token"]) for one in found if one["valid_until"] is None}
    assert (now["input"], now["cached_input"], now["output"]) == (200, 20, 600)
    assert len([one for one in found if one["component"] == "input"]) == 2, "the older one stays in the books"
    late = ("--input", "1", "--output", "1", "--from", "yesterday")
    assert "valid_from" in await admin("prices", "create", "llama", *late, status=1)
