"""Budgets by the command line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any


async def test_budgets(admin: Callable[..., Awaitable[Any]]) -> None:
    project = (await admin("projects", "create", "Acme"))["id"]
    made = await admin("budgets", "create", "12.50", "--project", project, "--zone", "Europe/Berlin")
    assert (made["limit_nanousd"], made["period"], made["is_hard"]) == (12_500_000_000, "monthly", True)
    assert (made["project_id"], made["zone"]) == (project, "Europe/Berlin")
    raised = await admin("budgets", "set", made["id"], "--usd", "20", "--soft")
    assert (raised["limit_nanousd"], raised["is_hard"]) == (20_000_000_000, False)
    assert (await admin("budgets", "show", made["id"]))["limit_nanousd"] == 20_000_000_000
    assert [one["id"] for one in await admin("budgets", "list", "--project", project)] == [made["id"]]
    assert "already" in await admin("budgets", "create", "1", "--project", project, status=1)
    await admin("budgets", "create", "x", status=2)
    await admin("budgets", "delete", made["id"], "--yes")
    assert await admin("budgets", "list", "--project", project) == []
