"""The first page's live half, and what each role sees of it."""

from __future__ import annotations

from tests.fakes.engine import FakeEngine
from tests.gateway.http.admin.browser import invited
from tests.harness import Gateway


async def test_pools_alerts_and_changes_by_role(gateway: Gateway, engine: FakeEngine) -> None:
    await gateway.serve(engine)
    await gateway.sql(
        "INSERT INTO alert_record (id, type, payload, occurred_at) VALUES ('alert_1', 'ledger.drift', '{}', now())"
    )
    owner = await invited(gateway)
    found = await owner.json("GET", "/overview")
    [pool] = found["pools"]
    assert (pool["name"], pool["ready"], pool["is_rolling"]) == ("pool", 1, False)
    assert [alert["type"] for alert in found["alerts"]] == ["ledger.drift"]
    assert found["changes"][0]["action"] == "login.succeeded"
    assert found["changes"][0]["actor_email"] == "ann@example.com"
    viewer = await invited(gateway, "viewer", "v@example.com")
    found = await viewer.json("GET", "/overview")
    assert (len(found["pools"]), len(found["alerts"]), found["changes"]) == (1, 1, None)
    billing = await invited(gateway, "billing", "b@example.com")
    found = await billing.json("GET", "/overview")
    assert (found["pools"], len(found["alerts"]), found["changes"]) == (None, 1, None)
