"""Routes by the command line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any


async def test_routes(admin: Callable[..., Awaitable[Any]]) -> None:
    await admin("prices", "create", "sku-1", "--input", "0.15", "--output", "0.60")
    pools = [
        await admin("pools", "create", name, "--model", "m", "--served", "m") for name in ("blue", "green")
    ]
    project = (await admin("projects", "create", "Acme"))["id"]
    made = await admin("routes", "create", "chat", "--pool", "blue", "--sku", "sku-1", "--project", project)
    assert (made["served_model"], made["pool_id"], made["published"]) == ("chat", pools[0]["id"], True)
    moved = await admin("routes", "set", made["id"], "--pool", "green", "--unpublished")
    assert (moved["pool_id"], moved["published"], moved["sku"]) == (pools[1]["id"], False, "sku-1")
    assert (await admin("routes", "show", made["id"]))["project_id"] == project
    assert [one["id"] for one in await admin("routes", "list")] == [made["id"]]
    wrong = ("routes", "create", "chat", "--pool", "red", "--sku", "sku-1")
    assert await admin(*wrong, status=1) == "error: There is no pool red.\n"
    await admin("routes", "delete", made["id"], "--yes")
    assert await admin("routes", "list") == []
