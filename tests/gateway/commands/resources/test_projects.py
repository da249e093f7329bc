"""Projects by the command line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any


async def test_projects(admin: Callable[..., Awaitable[Any]]) -> None:
    made = await admin("projects", "create", "Acme", "--weight", "3")
    assert (made["name"], made["fairness_weight"]) == ("Acme", 3)
    changed = await admin("projects", "set", made["id"], "--name", "Acme & Co")
    assert (changed["name"], changed["fairness_weight"]) == ("Acme & Co", 3), "what is not given stays"
    assert (await admin("projects", "show", made["id"]))["name"] == "Acme & Co"
    await admin("projects", "archive", made["id"], "--yes")
    assert made["id"] not in {one["id"] for one in await admin("projects", "list")}
    assert made["id"] in {one["id"] for one in await admin("projects", "list", "--archived")}
    said = await admin("projects", "show", "proj_none", status=1)
    assert (said.startswith("error: "), said.count("\n")) == (True, 1)
    assert "(fairness_weight)" in await admin("projects", "create", "x", "--weight", "0", status=1)
