"""The operator's routes and a project's do the same with the same endpoint."""

from __future__ import annotations

from tests.gateway.http.admin.test_webhook_endpoints import HOOKS, body_for
from tests.harness import Gateway


async def test_an_endpoint_is_the_same_from_both_sides(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    its = f"/projects/{tenant.id}{HOOKS}"
    made = await gateway.admin("POST", its, body_for("https://mine.example.com/x", "budget.exhausted"))
    one = made["id"]
    shown = await gateway.admin("GET", f"{HOOKS}/{one}")
    assert shown == await gateway.admin("GET", f"{its}/{one}")
    assert (await gateway.admin("GET", f"{HOOKS}?project_id={tenant.id}"))["data"] == [shown]
    assert (await gateway.admin("GET", HOOKS))["data"] == [], "it is not the operator's own"
    changed = await gateway.admin("POST", f"{HOOKS}/{one}", {"name": "changed"})
    assert (await gateway.admin("GET", f"{its}/{one}")) == changed
    await gateway.admin("DELETE", f"{its}/{one}")
    await gateway.admin("GET", f"{HOOKS}/{one}", status=404)
