"""Keys by the command line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any


async def test_keys(admin: Callable[..., Awaitable[Any]]) -> None:
    project = (await admin("projects", "create", "Acme"))["id"]
    made = await admin("keys", "create", project, "ci", "--days", "2", "--ip", "10.0.0.0/8")
    assert made["value"].startswith("tw-")
    assert made["expires_at"] - made["created_at"] == 2 * 86_400
    assert made["ip_allow_list"] == ["10.0.0.0/8"]
    shown = await admin("keys", "show", project, made["id"])
    assert (shown["name"], "value" in shown) == ("ci", False)
    assert [one["id"] for one in await admin("keys", "list", project)] == [made["id"]]
    await admin("keys", "revoke", project, made["id"], "--yes")
    assert await admin("keys", "list", project) == []
    assert "ip_allow_list" in await admin("keys", "create", project, "ci", "--ip", "everywhere", status=1)
