"""Customers at Stripe and the deliveries' list."""

from __future__ import annotations

from tests.harness import Gateway


async def test_customers_are_named_once_and_listed(gateway: Gateway) -> None:
    first, second = await gateway.tenant("one"), await gateway.tenant("two")
    for number, tenant in enumerate((first, second)):
        body = {"project_id": tenant.id, "stripe_customer_id": f"cus_{number}"}
        made = await gateway.admin("POST", "/stripe_customers", body)
        assert (made["project_id"], made["stripe_customer_id"]) == (tenant.id, f"cus_{number}")
    again = {"project_id": first.id, "stripe_customer_id": "cus_9"}
    await gateway.admin("POST", "/stripe_customers", again, 409)
    await gateway.admin("POST", "/stripe_customers", {**again, "project_id": "none"}, 404)
    await gateway.admin("POST", "/stripe_customers", {**again, "stripe_customer_id": "sub_1"}, 400)
    page = await gateway.admin("GET", "/stripe_customers?limit=1")
    rest = await gateway.admin("GET", f"/stripe_customers?after={page['last_id']}")
    assert [row["id"] for row in page["data"] + rest["data"]] == sorted((first.id, second.id))
    audit = await gateway.sql("SELECT tenant_id FROM audit_log WHERE action = 'stripe_customer.created'")
    assert {row["tenant_id"] for row in audit} == {first.id, second.id}


async def test_meter_events_are_listed_by_status(gateway: Gateway) -> None:
    await gateway.sql(
        "INSERT INTO export_run (id, format, period_start, period_end, destination, requested_by)"
        " VALUES ('export_1', 'stripe', '2026-01-10', '2026-01-11', 'here', 'test')"
    )
    await gateway.sql(
        "INSERT INTO meter_event (identifier, run_id, tenant_id, customer_id, event_name, happened_at, amount_nanousd, status)"
        " SELECT 'e' || n, 'export_1', 'proj_' || n % 2, 'cus', 'tollway_nanousd', '2026-01-10Z', n,"
        " CASE WHEN n < 3 THEN 'refused' ELSE 'pending' END FROM generate_series(1, 5) n"
    )
    page = await gateway.admin("GET", "/meter_events?status=pending&limit=2")
    rest = await gateway.admin("GET", f"/meter_events?status=pending&after={page['last_id']}")
    assert [row["id"] for row in page["data"] + rest["data"]] == ["e3", "e4", "e5"]
    ours = await gateway.admin("GET", "/meter_events?project_id=proj_1")
    assert [row["amount_nanousd"] for row in ours["data"]] == [1, 3, 5]
    await gateway.admin("GET", "/meter_events?status=lost", status=400)
