"""Budgets: made, changed, shown with what they count, and felt by the next request on every gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.fakes.engine import FakeEngine
from tests.harness import SERVED, Gateway, Tenant

CHAT = "/v1/chat/completions"
ASK = {"model": SERVED, "messages": [{"role": "user", "content": "hi"}]}
PLENTY = 10**12


async def create(gateway: Gateway, limit: int, status: int = 200, **scope: Any) -> Any:
    return await gateway.admin(
        "POST", "/budgets", {"period": "monthly", "limit_nanousd": limit} | scope, status
    )


async def asked(gateway: Gateway, tenant: Tenant | str) -> int:
    key = tenant if isinstance(tenant, str) else tenant.key
    return (await gateway.request("POST", CHAT, ASK, key)).status


async def test_the_life_of_a_budget(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    assert await asked(gateway, tenant) == 200
    [event] = await gateway.events(1)
    spent = event["amount_nanousd"]
    made = await create(gateway, PLENTY, project_id=tenant.id)
    period = made["current_period"]
    assert (period["spent_nanousd"], period["held_nanousd"]) == (spent, 0), (
        "the month began before the budget"
    )
    assert period["remaining_nanousd"] == PLENTY - spent
    assert period["starts_at"] < made["created_at"] < period["ends_at"]
    assert (await create(gateway, 1, 409, project_id=tenant.id))["error"]["code"] is None
    path = f"/budgets/{made['id']}"
    lowered = await gateway.admin("POST", path, {"limit_nanousd": spent})
    assert "every request is refused until" in lowered["consequence"]
    assert await asked(gateway, tenant) == 429
    soft = await gateway.admin("POST", path, {"is_hard": False})
    assert soft["consequence"] is None
    assert (soft["limit_nanousd"], soft["is_hard"]) == (spent, False)
    assert await asked(gateway, tenant) == 200
    await gateway.events(2)
    shown = await gateway.admin("GET", path)
    assert shown["current_period"]["remaining_nanousd"] == -spent
    [listed] = (await gateway.admin("GET", f"/budgets?project_id={tenant.id}"))["data"]
    assert listed == shown
    [row] = (await gateway.admin("GET", f"{path}/periods"))["data"]
    assert (row["id"], row["spent_nanousd"]) == (period["id"], 2 * spent)
    await gateway.admin("POST", path, {"is_hard": True})
    assert await asked(gateway, tenant) == 429
    assert (await gateway.admin("DELETE", path))["deleted"]
    assert await asked(gateway, tenant) == 200
    for method, where in (("GET", path), ("DELETE", path), ("POST", path), ("GET", f"{path}/periods")):
        await gateway.admin(method, where, {} if method == "POST" else None, 404)


async def test_budgets_page_by_key(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    made = [await create(gateway, 1)]
    for period in ("daily", "weekly", "monthly", "prepaid"):
        made.append(await create(gateway, 1, project_id=tenant.id, period=period))
    for key in (await gateway.tenant("b"), await gateway.tenant("c")):
        made.append(await create(gateway, 1, project_id=key.id, key_id=key.key_id))
    seen: list[str] = []
    after = ""
    for more in (True, True, False):
        page = await gateway.admin("GET", f"/budgets?limit=3{after}")
        seen += [row["id"] for row in page["data"]]
        assert page["has_more"] is more
        after = f"&after={page['last_id']}"
    assert seen == [row["id"] for row in reversed(made)]
    for scope, count in (("organization", 1), ("tenant", 4), ("key", 2)):
        assert len((await gateway.admin("GET", f"/budgets?scope={scope}"))["data"]) == count
    prepaid = made[4]
    assert prepaid["current_period"]["ends_at"] is None
    refused = await gateway.admin("POST", f"/budgets/{prepaid['id']}", {"limit_nanousd": 2}, 400)
    assert refused["error"]["param"] == "limit_nanousd"


async def test_what_a_budget_cannot_be(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    await create(gateway, 1, 404, project_id="proj_none")
    await create(gateway, 1, 404, project_id=tenant.id, key_id="key_none")
    await create(gateway, 1, 400, key_id=tenant.key_id)
    await create(gateway, -1, 400)
    await create(gateway, 1, 400, zone="Mars/X")
    await create(gateway, 1, 400, zone="/etc/passwd")
    assert await gateway.sql("SELECT id FROM budget") == []


async def test_changes_are_audited_with_before_and_after(gateway: Gateway) -> None:
    made = await create(gateway, 5)
    path = f"/budgets/{made['id']}"
    await gateway.admin("POST", path, {"limit_nanousd": 5})
    await gateway.admin("POST", path, {"limit_nanousd": 3})
    await gateway.admin("DELETE", path)
    rows = await gateway.sql(
        "SELECT action, actor_kind, details #>> '{before,limit_nanousd}' AS before,"
        " details #>> '{after,limit_nanousd}' AS after FROM audit_log WHERE resource_kind = 'budget' ORDER BY id"
    )
    assert [tuple(row.values()) for row in rows] == [
        ("budget.created", "admin_key", None, "5"),
        ("budget.updated", "admin_key", "5", "3"),
        ("budget.deleted", "admin_key", "3", None),
    ], "a change of nothing is no change"


async def test_two_gateways_share_a_budget_that_one_of_them_changes(
    gateway: Gateway, engine: FakeEngine, database_url: str, cache_url: str, tmp_path: Path
) -> None:
    """Duty B16: a budget is one row, however many gateways there are."""
    tenant = await gateway.serve(engine)
    second = Gateway(database_url, cache_url, tmp_path, "gw-2")
    second.admin_key = gateway.admin_key
    async with second:
        assert await asked(second, tenant) == 200
        [event] = await gateway.events(1)
        made = await create(gateway, PLENTY, project_id=tenant.id)
        await gateway.refresh()
        await second.refresh()
        statuses = [await asked(one, tenant) for one in (gateway, second)]
        assert statuses == [200, 200]
        await gateway.events(3)
        await gateway.admin("POST", f"/budgets/{made['id']}", {"limit_nanousd": 3 * event["amount_nanousd"]})
        await gateway.refresh()
        await second.refresh()
        assert [await asked(one, tenant) for one in (gateway, second)] == [429, 429]
        shown = await second.admin("GET", f"/budgets/{made['id']}")
        assert shown["current_period"]["spent_nanousd"] == 3 * event["amount_nanousd"]
    gateway.app.metrics.ledger_operations.labels("reserve", "ok").inc(2)  # the second gateway's share


async def test_without_a_budget_nobody_is_refused_for_one(gateway: Gateway, engine: FakeEngine) -> None:
    """Duty B12: a tenant without a budget is never refused for budget, and nothing is held when all is idle."""
    tenant = await gateway.serve(engine)
    other = await gateway.tenant("other")
    await create(gateway, 0, project_id=other.id)
    await create(gateway, 0, project_id=other.id, key_id=other.key_id, period="daily")
    await gateway.refresh()
    assert await asked(gateway, other) == 429
    assert [await asked(gateway, tenant) for _ in range(5)] == [200] * 5
    await gateway.events(5)
    held = await gateway.sql("SELECT coalesce(sum(held_nanousd), 0)::bigint AS held FROM budget_period")
    assert held == [{"held": 0}]


async def test_rotation_changes_only_the_secret(gateway: Gateway, engine: FakeEngine) -> None:
    """Duty B14: what a key has spent, its window and its limit stay when its secret is rotated."""
    tenant = await gateway.serve(engine)
    made = await create(gateway, PLENTY, project_id=tenant.id, key_id=tenant.key_id, period="daily")
    path = f"/budgets/{made['id']}"
    assert await asked(gateway, tenant) == 200
    [event] = await gateway.events(1)
    before = await gateway.admin("GET", path)
    assert before["current_period"]["spent_nanousd"] == event["amount_nanousd"]
    rotate = f"/projects/{tenant.id}/api_keys/{tenant.key_id}/rotate"
    rotated = await gateway.admin("POST", rotate, {"grace_s": 0, "idempotency_key": "x"})
    assert await gateway.admin("GET", path) == before
    await gateway.refresh()
    assert await asked(gateway, rotated["value"]) == 200
    await gateway.events(2)
    after = await gateway.admin("GET", path)
    assert after["current_period"]["spent_nanousd"] == 2 * event["amount_nanousd"]
    again = {"project_id": tenant.id, "key_id": rotated["id"], "period": "daily"}
    assert "already" in (await create(gateway, 1, 409, **again))["error"]["message"], "it is the same budget"
    await gateway.admin("POST", path, {"limit_nanousd": 1})
    await gateway.refresh()
    assert await asked(gateway, rotated["value"]) == 429
