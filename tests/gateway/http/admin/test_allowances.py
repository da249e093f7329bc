"""A project's outage allowance: set, changed, taken away, audited; none by default."""

from __future__ import annotations

from tests.harness import Gateway


async def test_an_allowance_is_set_changed_and_taken_away(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    path = f"/projects/{tenant.id}/outage_allowance"
    none = {"object": "organization.project.outage_allowance", "project_id": tenant.id, "amount_nanousd": 0}
    assert await gateway.admin("GET", path) == none
    for amount in (5, 7):
        shown = await gateway.admin("POST", path, {"amount_nanousd": amount})
        assert shown == await gateway.admin("GET", path) == {**none, "amount_nanousd": amount}
    await gateway.admin("POST", path, {"amount_nanousd": 0})
    assert await gateway.admin("GET", path) == none
    assert await gateway.sql("SELECT * FROM outage_allowance") == []
    actions = await gateway.sql("SELECT action FROM audit_log WHERE resource_kind = 'outage_allowance'")
    assert len(actions) == 3


async def test_what_makes_no_sense_is_refused(gateway: Gateway) -> None:
    await gateway.admin("GET", "/projects/proj_x/outage_allowance", status=404)
    await gateway.admin("POST", "/projects/proj_x/outage_allowance", {"amount_nanousd": 1}, 404)
    tenant = await gateway.tenant()
    answer = await gateway.admin(
        "POST", f"/projects/{tenant.id}/outage_allowance", {"amount_nanousd": -1}, 400
    )
    assert answer["error"]["param"] == "amount_nanousd"
