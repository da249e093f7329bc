"""A person chats from the console: as a tenant's request in every respect, and only while they may."""

from __future__ import annotations

import asyncio
import json

import openai
import pytest

from tests.fakes.engine import FakeEngine
from tests.gateway.http.admin.browser import ROOT, Browser, invited
from tests.gateway.http.answers import BODY
from tests.harness import SERVED, Gateway, Tenant

STREAM = BODY | {"stream": True}


def path_of(tenant: Tenant | str) -> str:
    return f"/projects/{tenant if isinstance(tenant, str) else tenant.id}/chat/completions"


async def member(gateway: Gateway, tenant: Tenant) -> Browser:
    browser = await invited(gateway, "member", "ann@example.com", **{tenant.id: "member"})
    await gateway.refresh()
    return browser


async def said(browser: Browser, tenant: Tenant | str, **headers: str | None) -> tuple[int, str | None]:
    answer = await browser.send("POST", path_of(tenant), BODY, headers)
    return answer.status, (await answer.json()).get("error", {}).get("code")


async def test_a_member_chats_and_their_project_pays(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    browser = await member(gateway, tenant)
    whole = await browser.json("POST", path_of(tenant), BODY)
    assert whole["choices"][0]["message"]["content"]
    answer = await gateway.request(
        "POST", ROOT + path_of(tenant), STREAM, headers=browser.headers | _cookie(browser)
    )
    lines = [line for line in (await answer.text()).split("\n\n") if line]
    assert (answer.status, lines[-1]) == (200, "data: [DONE]")
    assert json.loads(lines[0].removeprefix("data: "))["object"] == "chat.completion.chunk"
    events = await gateway.events(count=2)
    assert {event["tenant_id"] for event in events} == {tenant.id}
    assert all(event["amount_nanousd"] > 0 for event in events)
    [key] = [one for one in await _keys(gateway, tenant) if one["owner"]["type"] == "user"]
    me = await browser.json("GET", "/me")
    assert key["owner"]["user"]["id"] == me["user"]["id"]
    assert {event["key_id"] for event in events} == {key["id"]}, "one key for all of a person's chats there"
    assert (await browser.json("GET", "/requests"))["data"][0]["model"] == SERVED


def _cookie(browser: Browser) -> dict[str, str]:
    return {"cookie": "; ".join(f"{name}={value}" for name, value in browser.cookies.items())}


async def _keys(gateway: Gateway, tenant: Tenant) -> list[dict[str, object]]:
    found = (await gateway.admin("GET", f"/projects/{tenant.id}/api_keys"))["data"]
    return list(found)


async def test_limits_permissions_and_budgets_hold_as_for_any_request(
    gateway: Gateway, engine: FakeEngine
) -> None:
    tenant = await gateway.serve(engine)
    browser = await member(gateway, tenant)
    await gateway.admin("POST", f"/projects/{tenant.id}/limits", {"requests_per_min": 1})
    await gateway.refresh()
    assert await said(browser, tenant) == (200, None)
    status, code = await said(browser, tenant)
    assert (status, code) == (429, "rate_limit_exceeded")
    await gateway.admin("POST", f"/projects/{tenant.id}/limits", {"requests_per_min": None})
    permission = {"mode": "allow_list", "model_ids": ["another"]}
    await gateway.admin("POST", f"/projects/{tenant.id}/model_permissions", permission)
    await gateway.refresh()
    assert await said(browser, tenant) == (404, "model_not_found")
    await gateway.admin("DELETE", f"/projects/{tenant.id}/model_permissions")
    budget = {"project_id": tenant.id, "period": "monthly", "limit_nanousd": 1}
    await gateway.admin("POST", "/budgets", budget)
    await gateway.refresh()
    assert (await said(browser, tenant))[0] == 429
    assert len(await gateway.events(count=1)) == 1


async def test_only_who_belongs_there_and_only_from_the_console(gateway: Gateway, engine: FakeEngine) -> None:
    tenant, other = await gateway.serve(engine), await gateway.tenant("other")
    browser = await member(gateway, tenant)
    assert (await said(browser, other))[0] == 404
    assert (await said(browser, "proj_none"))[0] == 404
    for headers in ({"origin": "https://evil.example"}, {"x-tollway-console": None}, {"origin": None}):
        assert await said(browser, tenant, **headers) == (403, "cross_site_request")
    viewer = await invited(gateway, "viewer", "vic@example.com")
    assert await said(viewer, tenant) == (403, "insufficient_permissions")
    assert await said(Browser(gateway), tenant) == (401, None)
    answer = await gateway.request("POST", ROOT + path_of(tenant), BODY, tenant.key)
    assert answer.status == 403, "a project's key has the data plane"
    assert await gateway.sql("SELECT FROM api_key WHERE user_id IS NOT NULL") == []
    assert await gateway.events() == []


async def test_a_lost_membership_and_a_logout_end_it(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    browser = await member(gateway, tenant)
    assert await said(browser, tenant) == (200, None)
    user_id = (await browser.json("GET", "/me"))["user"]["id"]
    await gateway.admin("DELETE", f"/projects/{tenant.id}/users/{user_id}")
    await gateway.refresh()
    assert (await said(browser, tenant))[0] == 404
    await gateway.admin("POST", f"/projects/{tenant.id}/users", {"role": "member", "user_id": user_id})
    await gateway.refresh()
    assert await said(browser, tenant) == (200, None)
    cookies = dict(browser.cookies)
    await browser.json("POST", "/sessions/logout")
    browser.cookies = cookies
    await gateway.refresh()
    assert await said(browser, tenant) == (401, "session_ended")
    assert len(await gateway.events(count=2)) == 2


async def test_nobody_has_the_keys_secret_and_nobody_gets_it(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    browser = await member(gateway, tenant)
    both = await asyncio.gather(said(browser, tenant), said(browser, tenant))
    assert both == [(200, None), (200, None)]
    [row] = await gateway.sql("SELECT id FROM api_key WHERE user_id IS NOT NULL")
    one = f"/projects/{tenant.id}/api_keys/{row['id']}"
    rotation = {"grace_s": 0, "idempotency_key": "k"}
    for path, body in ((f"{one}/rotate", rotation), (one, {"expires_in_seconds": 60})):
        answer = await gateway.admin("POST", path, body, status=409)
        assert "can only be revoked" in answer["error"]["message"]
    await gateway.admin("DELETE", one)
    assert await said(browser, tenant) == (200, None)
    rows = await gateway.sql("SELECT id FROM api_key WHERE user_id IS NOT NULL AND revoked_at IS NULL")
    assert len(rows) == 1
    assert rows[0]["id"] != row["id"], "a revoked one is history"
    created = (await gateway.admin("GET", "/audit_logs?event_types=api_key.created"))["data"]
    assert [entry["actor"]["type"] for entry in created[:2]] == ["session", "session"]


async def test_an_archived_project_says_so(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    browser = await invited(gateway)
    await gateway.refresh()
    assert await said(browser, tenant) == (200, None)
    await gateway.admin("POST", f"/projects/{tenant.id}/archive")
    await gateway.refresh()
    assert (await said(browser, tenant))[0] == 409
    fresh = await invited(gateway, "admin", "bob@example.com")
    assert (await said(fresh, tenant))[0] == 409


async def test_an_admin_key_that_is_nobodys_is_told_what_to_use(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    made = await gateway.admin("POST", "/admin_api_keys", {"name": "robot", "role": "admin"})
    assert (await gateway.request("POST", ROOT + path_of(tenant), BODY, made["value"])).status == 200, (
        "its user's"
    )
    await gateway.sql("UPDATE admin_api_key SET user_id = NULL WHERE id = $1", made["id"])
    await gateway.refresh()
    answer = await gateway.request("POST", ROOT + path_of(tenant), BODY, made["value"])
    assert answer.status == 400
    with pytest.raises(openai.AuthenticationError):
        await gateway.client(made["value"]).chat.completions.create(model=SERVED, messages=BODY["messages"])
