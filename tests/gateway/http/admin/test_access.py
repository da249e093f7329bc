"""The table of roles and routes, walked: every route has its row, and every caller meets what its column says."""

from __future__ import annotations

import re

from fastapi.routing import APIRoute

from gateway.http.admin.access import ACCESS, CHAT_ROUTE, COLUMNS, OPEN, PREFIX
from gateway.http.admin.app import create_application
from tests.gateway.http.admin.people import admin_key, cast_of, user
from tests.harness import Gateway

CHILDREN = (
    "service_accounts/{}",
    "api_keys/{}",
    "users/{}",
    "limits/{}",
    "spend_alerts/{}",
    "rate_limits/{}",
)


async def test_every_route_has_its_row_and_no_row_is_left_over(gateway: Gateway) -> None:
    routes = {
        f"{method} {route.path.removeprefix(PREFIX)}"
        for route in create_application(gateway.app.admin_parts()).routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }
    assert routes | {CHAT_ROUTE} == set(ACCESS) | OPEN
    assert not OPEN & set(ACCESS)


async def test_each_caller_meets_what_the_table_says(gateway: Gateway) -> None:
    """Nothing exists under the ids that are asked for, and no body is good: 403 is all that this can tell."""
    cast = await cast_of(gateway)
    wrong = []
    for route, allowed in ACCESS.items():
        method, path = route.split()
        if path.endswith("/archive"):
            continue  # archived for the first of them, it would be another one for the next
        for column in COLUMNS:
            url = re.sub(r"\{\w+\}", "none", path.replace("{project_id}", cast.project.id))
            body: dict[str, str] | None = {} if method == "POST" else None
            answer = await gateway.request(method, PREFIX + url, body, cast.keys[column])
            if (answer.status == 403) != (column not in allowed) or answer.status in (401, 500):
                wrong.append(f"{column} {route}: {answer.status}")
            elif answer.status == 403:
                assert (await answer.json())["error"]["code"] == "insufficient_permissions"
    assert not wrong, "\n".join(wrong)


async def test_a_project_of_others_cannot_be_told_from_none(gateway: Gateway) -> None:
    """For who is bound to projects, on every route that names one: the same bytes, whatever there is."""
    cast = await cast_of(gateway)
    seen = 0
    for route in ACCESS:
        method, path = route.split()
        if "{project_id}" not in path:
            continue
        for column in ("project_owner", "project_member", "api_key"):
            answers = []
            for project_id in (cast.other.id, "proj_none"):
                url = re.sub(r"\{\w+\}", "none", path.replace("{project_id}", project_id))
                body = {} if method == "POST" else None
                answer = await gateway.request(method, PREFIX + url, body, cast.keys[column])
                answers.append((answer.status, await answer.read()))
            assert answers[0] == answers[1], (column, route)
            assert answers[0][0] == (403 if column == "api_key" else 404), (column, route)
            seen += 1
    assert seen > 100


async def test_a_project_that_does_not_exist_is_404_on_every_route(gateway: Gateway) -> None:
    answers = set()
    for route in ACCESS:
        method, path = route.split()
        if "{project_id}" in path:
            url = re.sub(r"\{\w+\}", "none", path.replace("{project_id}", "proj_none"))
            body: dict[str, str] | None = {} if method == "POST" else None
            answer = await gateway.request(method, PREFIX + url, body, gateway.admin_key)
            answers.add((answer.status, (await answer.json())["error"]["message"]))
    assert answers == {(404, "No such project.")}


async def test_an_object_of_another_project_cannot_be_told_from_none(gateway: Gateway) -> None:
    """For the operator too: an id belongs to its project, in reading, changing and deleting it."""
    cast = await cast_of(gateway)
    there = f"/projects/{cast.other.id}"
    account = await gateway.admin("POST", f"{there}/service_accounts", {"name": "robot"})
    member = await user(gateway, "member", "theirs")
    await gateway.admin("POST", f"{there}/users", {"role": "member", "user_id": member})
    limits = await gateway.admin("POST", f"{there}/limits", {"served_model": "m", "requests_per_min": 1})
    alert = {
        "currency": "USD",
        "interval": "month",
        "threshold_amount": 5,
        "notification_channel": {"type": "email", "recipients": ["a@example.com"]},
    }
    made = await gateway.admin("POST", f"{there}/spend_alerts", alert)
    [rate] = (await gateway.admin("GET", f"{there}/rate_limits"))["data"]
    ids = (account["id"], cast.other.key_id, member, limits["id"], made["id"], rate["id"])
    seen = 0
    for child, id_ in zip(CHILDREN, ids, strict=True):
        path, kind = f"/projects/{cast.project.id}/{child}", child.split("/", 1)[0]
        for route in ACCESS:
            method, template = route.split()
            if not template.startswith(f"/projects/{{project_id}}/{kind}/{{"):
                continue
            tail = template.split("}", 2)[2]
            body = alert if kind == "spend_alerts" else {"grace_s": 0, "idempotency_key": "k"} if tail else {}
            body = body if tail != "/api_keys" else {}
            for key in (gateway.admin_key, cast.keys["project_owner"]):
                answers = []
                for one in (id_, "none"):
                    url = PREFIX + path.format(one) + tail
                    answer = await gateway.request(method, url, body if method == "POST" else None, key)
                    answers.append((answer.status, await answer.read()))
                assert answers[0] == answers[1], (route, answers)
                assert answers[0][0] in (403, 404), (route, answers)
                seen += 1
    assert seen > 25
    await gateway.refresh()
    assert (await gateway.request("GET", "/v1/models", key=cast.other.key)).status == 200
    assert (await gateway.admin("GET", f"{there}/service_accounts/{account['id']}"))["name"] == "robot"


async def test_members_see_their_projects_and_nothing_else(gateway: Gateway) -> None:
    cast = await cast_of(gateway)
    prefix, key = PREFIX, cast.keys["project_member"]
    answer = await gateway.request("GET", f"{prefix}/projects", key=key)
    assert [project["id"] for project in (await answer.json())["data"]] == [cast.project.id]
    for query in ("", f"&project_ids={cast.other.id}"):
        answer = await gateway.request("GET", f"{prefix}/usage/completions?start_time=0{query}", key=key)
        assert answer.status == 200
    answer = await gateway.request("GET", f"{prefix}/requests?project_id={cast.other.id}", key=key)
    assert (await answer.json())["data"] == []
    await gateway.admin("DELETE", f"/projects/{cast.project.id}/users/{await _user_of(gateway, key)}")
    await gateway.refresh()
    answer = await gateway.request("GET", f"{prefix}/projects", key=key)
    assert (await answer.json())["data"] == []
    answer = await gateway.request("GET", f"{prefix}/projects/{cast.project.id}", key=key)
    assert answer.status == 404


async def test_a_key_may_no_more_than_its_user(gateway: Gateway) -> None:
    """A role that is taken from the user is taken from all of their keys."""
    somebody = await user(gateway, "admin")
    key = await admin_key(gateway, "owner", somebody)
    await gateway.refresh()
    url, body = f"{PREFIX}/projects", {"name": "p"}
    assert (await gateway.request("POST", url, body, key)).status == 200
    assert (await gateway.request("POST", f"{PREFIX}/users", {}, key)).status == 403
    await gateway.admin("POST", f"/users/{somebody}", {"role": "viewer"})
    await gateway.refresh()
    assert (await gateway.request("POST", url, body, key)).status == 403
    assert (await gateway.request("GET", url, key=key)).status == 200
    await gateway.admin("DELETE", f"/users/{somebody}")
    await gateway.refresh()
    assert (await gateway.request("GET", url, key=key)).status == 401


async def _user_of(gateway: Gateway, key: str) -> str:
    public = key.split("-")[1]
    [row] = await gateway.sql("SELECT user_id FROM admin_api_key WHERE public_id = $1", public)
    return str(row["user_id"])
