"""Credits and adjustments: once per key, audited, felt by budgets and told by the events."""

from __future__ import annotations

from typing import Any

from tests.fakes.engine import FakeEngine
from tests.harness import SERVED, Gateway, Tenant

CHAT = "/v1/chat/completions"
ASK = {"model": SERVED, "messages": [{"role": "user", "content": "hi"}]}
PLENTY = 10**12


async def paid(gateway: Gateway, tenant: Tenant) -> dict[str, Any]:
    """One request, and its event."""
    assert (await gateway.request("POST", CHAT, ASK, tenant.key)).status == 200
    [event] = await gateway.events(1)
    return event


async def budget(gateway: Gateway, limit: int, **fields: Any) -> str:
    body = {"period": "monthly", "limit_nanousd": limit} | fields
    return str((await gateway.admin("POST", "/budgets", body))["id"])


async def remaining(gateway: Gateway, budget_id: str) -> int:
    shown = await gateway.admin("GET", f"/budgets/{budget_id}")
    return int(shown["current_period"]["remaining_nanousd"])


async def test_a_refund_corrects_a_request_once(gateway: Gateway, engine: FakeEngine) -> None:
    tenant, other = await gateway.serve(engine), await gateway.tenant("other")
    event = await paid(gateway, tenant)
    cost = event["amount_nanousd"]
    budget_id = await budget(gateway, PLENTY, project_id=tenant.id)
    refund = {
        "project_id": tenant.id,
        "corrects": event["request_id"],
        "amount_nanousd": -cost,
        "reason": "The answer was cut short.",
        "idempotency_key": "ticket-1",
    }
    path = "/adjustments"
    made = await gateway.admin("POST", path, refund)
    assert made == await gateway.admin("POST", path, refund) == await gateway.admin("GET", f"{path}/ticket-1")
    assert (made["id"], made["corrects"], made["amount_nanousd"]) == ("ticket-1", event["request_id"], -cost)
    assert await remaining(gateway, budget_id) == PLENTY
    _, correction = await gateway.events(2)
    lines = (await gateway.admin("GET", f"/usage_events?request_id={event['request_id']}"))["data"]
    assert lines[0]["id"] == made["usage_event_id"]
    assert (correction["corrects"], correction["amount_nanousd"]) == (event["event_id"], -cost)
    another = refund | {"idempotency_key": "ticket-2"}
    for wrong, status, param in (
        (refund | {"amount_nanousd": -1}, 400, "idempotency_key"),
        (another | {"amount_nanousd": -1}, 400, "amount_nanousd"),
        (another | {"amount_nanousd": 0}, 400, "amount_nanousd"),
        (another | {"reason": ""}, 400, "reason"),
        (another | {"project_id": other.id}, 404, None),
        (another | {"project_id": "proj_none"}, 404, None),
        (another | {"corrects": "req_none"}, 404, None),
        ({**another, "idempotency_key": "a b"}, 400, "idempotency_key"),
        ({key: value for key, value in another.items() if key != "reason"}, 400, "reason"),
    ):
        refused = await gateway.admin("POST", path, wrong, status)
        assert refused["error"]["param"] == param, wrong
    assert len((await gateway.admin("GET", path))["data"]) == 1
    await gateway.admin("GET", "/credits/ticket-1", status=404)
    audit = await gateway.sql(
        "SELECT resource_id, tenant_id, details #>> '{after,reason}' AS reason FROM audit_log"
        " WHERE action = 'adjustment.created'"
    )
    assert audit == [{"resource_id": "ticket-1", "tenant_id": tenant.id, "reason": refund["reason"]}]


async def test_a_prepaid_budget_is_filled_by_credits(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    budget_id = await budget(gateway, 0, project_id=tenant.id, period="prepaid")
    monthly = await budget(gateway, 5, project_id=tenant.id)
    await gateway.admin("DELETE", f"/budgets/{monthly}")
    assert (await gateway.request("POST", CHAT, ASK, tenant.key)).status == 429
    top_up = {
        "budget_id": budget_id,
        "amount_nanousd": PLENTY,
        "reason": "Invoice 7 is paid.",
        "idempotency_key": "invoice-7",
    }
    made = await gateway.admin("POST", "/credits", top_up)
    assert (made["budget_id"], made["project_id"]) == (budget_id, tenant.id)
    assert made["usage_event_id"] is None, "what is paid in is no cost"
    await gateway.admin("POST", "/credits", top_up)
    await gateway.refresh()
    event = await paid(gateway, tenant)
    assert await remaining(gateway, budget_id) == PLENTY - event["amount_nanousd"]
    back = top_up | {"amount_nanousd": -PLENTY, "idempotency_key": "back-7"}
    await gateway.admin("POST", "/credits", back)
    assert await remaining(gateway, budget_id) == -event["amount_nanousd"]
    await gateway.refresh()
    assert (await gateway.request("POST", CHAT, ASK, tenant.key)).status == 429
    again = back | {"idempotency_key": "back-8"}
    assert (await gateway.admin("POST", "/credits", again, 400))["error"]["param"] == "amount_nanousd"
    await gateway.admin("POST", "/credits", again | {"budget_id": monthly}, 404)


async def test_a_projects_credit_makes_room_in_its_budgets(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    budget_id = await budget(gateway, 100, project_id=tenant.id)
    credit = {"project_id": tenant.id, "amount_nanousd": 30, "reason": "goodwill", "idempotency_key": "g1"}
    made = await gateway.admin("POST", "/credits", credit)
    assert (made["amount_nanousd"], made["budget_id"]) == (30, None)
    assert await remaining(gateway, budget_id) == 130
    for wrong in ({"amount_nanousd": -30}, {"budget_id": budget_id}, {"project_id": None}):
        await gateway.admin("POST", "/credits", credit | wrong | {"idempotency_key": "g2"}, 400)
    for number in range(6):
        await gateway.admin("POST", "/credits", credit | {"idempotency_key": f"p{number}"})
    seen: list[str] = []
    after = ""
    for more in (True, True, False):
        page = await gateway.admin("GET", f"/credits?project_id={tenant.id}&limit=3{after}")
        assert page["has_more"] is more
        seen, after = [*seen, *(row["id"] for row in page["data"])], f"&after={page['last_id']}"
    assert seen == ["p5", "p4", "p3", "p2", "p1", "p0", "g1"]


async def test_a_balance_is_at_most_what_a_budget_may_be(gateway: Gateway) -> None:
    """Above that, a sum beside it would no longer fit its column."""
    budget_id = await budget(gateway, 1 << 62, period="prepaid")
    body = {"budget_id": budget_id, "amount_nanousd": 1, "reason": "Paid in.", "idempotency_key": "much"}
    refused = await gateway.admin("POST", "/credits", body, 400)
    assert refused["error"]["param"] == "amount_nanousd"
    assert await remaining(gateway, budget_id) == 1 << 62
