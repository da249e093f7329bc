"""Who calls, whatever they call with."""

from __future__ import annotations

from gateway.http.admin.access import ACCESS
from tests.gateway.http.admin.browser import PASSWORD, Browser, invited
from tests.gateway.http.admin.people import cast_of
from tests.harness import Gateway


async def test_keys_are_told_who_they_are(gateway: Gateway) -> None:
    cast = await cast_of(gateway)
    for column, key in cast.keys.items():
        answer = await gateway.request("GET", "/v1/organization/me", key=key)
        found = await answer.json()
        if column == "api_key":
            assert answer.status == 403
            continue
        assert found["may"] == [route for route in ACCESS if column in ACCESS[route]]
        assert (found["kind"], found["session"]) == ("admin_key", None)
        assert found["is_bound_to_projects"] == column.startswith("project_")
        if column.startswith("project_"):
            assert [one["id"] for one in found["projects"]] == [cast.project.id]


async def test_ones_own_password(gateway: Gateway) -> None:
    browser = await invited(gateway, "viewer")
    fresh = "another long password"
    wrong = {"current_password": "wrong and long enough", "new_password": fresh}
    refused = await browser.json("POST", "/me/password", wrong, status=400)
    assert refused["error"]["param"] == "current_password"
    body = {"current_password": PASSWORD, "new_password": fresh}
    assert (await browser.json("POST", "/me/password", body))["changed"]
    await Browser(gateway).login("ann@example.com", fresh)
    [row] = (await gateway.admin("GET", "/audit_logs?event_types=user.password_changed&limit=1"))["data"]
    assert fresh not in str(row)
    answer = await gateway.request("POST", "/v1/organization/me/password", body, gateway.admin_key)
    assert answer.status == 400, "a key has no password"
