"""The console's sessions over HTTP: cookies, roles, what other sites can and cannot do, and how it all ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from http.cookies import SimpleCookie
from pathlib import Path

import pytest

from gateway.http.admin.access import ACCESS, OPEN
from tests.fakes.engine import FakeEngine
from tests.gateway.http.admin.browser import PASSWORD, ROOT, Browser, invited
from tests.harness import Gateway

ACCESS_NAME, REFRESH_NAME = "tollway", "tollway-refresh"


async def code(browser: Browser, method: str, path: str, headers: dict[str, str | None]) -> tuple[int, str]:
    answer = await browser.send(method, path, {} if method == "POST" else None, headers)
    return answer.status, (await answer.json())["error"]["code"]


async def test_a_session_in_cookies_that_no_script_reads(gateway: Gateway) -> None:
    await invited(gateway)
    browser = Browser(gateway)
    found = await browser.login("Ann@Example.com")
    assert found["user"]["email"] == "ann@example.com"
    assert not {"access", "refresh", "token"} & set(found)
    assert len(browser.set_cookies) == 2
    for line, path in zip(browser.set_cookies, ("/", f"{ROOT}/sessions"), strict=True):
        [morsel] = SimpleCookie(line).values()
        assert (morsel["path"], morsel["samesite"], morsel["httponly"]) == (path, "Strict", True)
        assert not morsel["secure"], "this is http"
        assert morsel.value not in str(found)
    me = await browser.json("GET", "/me")
    assert (me["kind"], me["user"]["role"], me["session"]["id"]) == ("user", "owner", found["id"])


async def test_over_https_the_cookies_are_for_https_alone(gateway: Gateway) -> None:
    """The Origin tells what a proxy hides; and a cookie of http is not looked at where https is known."""
    await invited(gateway)
    browser = Browser(gateway, origin=gateway.url.replace("http:", "https:"))
    await browser.login("ann@example.com")
    assert set(browser.cookies) == {"__Host-tollway", "__Secure-tollway-refresh"}
    for line in browser.set_cookies:
        [morsel] = SimpleCookie(line).values()
        assert morsel["secure"]
        assert not morsel["domain"]
    await browser.json("GET", "/me")
    await browser.json("POST", "/sessions/refresh")


FOREIGN: tuple[dict[str, str | None], ...] = (
    {"origin": None},
    {"origin": "null"},
    {"origin": "https://evil.example"},
    {"origin": "http://127.0.0.1.evil.example"},
    {"origin": "http://127.0.0.1:1"},
    {"origin": ""},
    {"x-tollway-console": None},
    {"x-tollway-console": ""},
)


async def test_other_sites_change_nothing(gateway: Gateway) -> None:
    browser, refusal = await invited(gateway), (403, "cross_site_request")
    changes = [("POST", "/projects"), ("DELETE", "/users/none"), ("PATCH", "/pools/none")]
    for headers in FOREIGN:
        for method, path in changes + [("POST", route[5:]) for route in sorted(OPEN) if route[:5] == "POST "]:
            assert await code(browser, method, path, headers) == refusal, (headers, path)
        assert (await browser.send("GET", "/me", headers=headers)).status == 200, "reading changes nothing"
    answer = await gateway.request(
        "POST", f"{ROOT}/projects", {"name": "p"}, gateway.admin_key, headers={"origin": "https://x.example"}
    )
    assert answer.status == 200, "a key is sent by nobody but its holder"


async def test_every_role_meets_the_same_table(gateway: Gateway) -> None:
    tenant, other = await gateway.tenant("mine"), await gateway.tenant("other")
    people = {
        role: await invited(gateway, role, f"{role}@example.com") for role in ("admin", "billing", "viewer")
    }
    people["project_owner"] = await invited(gateway, "member", "po@example.com", **{tenant.id: "owner"})
    people["project_member"] = await invited(gateway, "member", "pm@example.com", **{tenant.id: "member"})
    for column, browser in people.items():
        assert (await browser.json("GET", "/me"))["may"] == [
            route for route in ACCESS if column in ACCESS[route]
        ]
        for route in (
            "POST /projects",
            "POST /projects/{project_id}/api_keys",
            "GET /users",
            "GET /audit_logs",
        ):
            method, path = route.split()
            answer = await browser.send(
                method, path.format(project_id=tenant.id), {} if method == "POST" else None
            )
            assert (answer.status == 403) == (column not in ACCESS[route]), (column, route)
    for column in ("project_owner", "project_member"):
        browser = people[column]
        assert [row["id"] for row in (await browser.json("GET", "/projects"))["data"]] == [tenant.id]
        await browser.json("GET", f"/projects/{other.id}", status=404)


async def test_a_change_is_audited_as_the_persons(gateway: Gateway) -> None:
    browser = await invited(gateway)
    me = await browser.json("GET", "/me")
    await browser.json("POST", "/projects", {"name": "made by Ann"})
    [row] = (await browser.json("GET", "/audit_logs?event_types=project.created"))["data"]
    assert row["actor"]["session"]["user"] == {"id": me["user"]["id"], "email": "ann@example.com"}
    [failed] = await _failures(gateway, browser)
    assert (failed["type"], failed["login.failed"]["error_code"]) == ("login.failed", "invalid_login")
    assert "wrong and long" not in str(failed)


async def _failures(gateway: Gateway, browser: Browser) -> list[dict[str, object]]:
    body = {"email": "ann@example.com", "password": "wrong and long enough"}
    answer = await Browser(gateway).json("POST", "/sessions", body, status=401)
    assert answer["error"]["code"] == "invalid_login"
    found = await browser.json("GET", "/audit_logs?event_types=login.failed")
    return list(found["data"])


async def test_refresh_logout_and_the_codes_between(gateway: Gateway) -> None:
    browser = await invited(gateway)
    before = dict(browser.cookies)
    await browser.json("POST", "/sessions/refresh")
    assert browser.cookies[REFRESH_NAME] != before[REFRESH_NAME]
    answer = await browser.json("POST", "/sessions/logout")
    assert (answer["ended"], browser.cookies) == (True, {})
    await gateway.refresh()
    browser.cookies = before
    assert await code(browser, "POST", "/sessions/refresh", {}) == (401, "session_ended")
    assert await code(browser, "GET", "/me", {}) == (401, "session_ended")
    browser.cookies = {ACCESS_NAME: "nonsense"}
    assert await code(browser, "GET", "/me", {}) == (401, "session_expired")
    browser.cookies = {}
    assert await code(browser, "POST", "/sessions/refresh", {}) == (401, "session_ended")
    assert (await browser.json("POST", "/sessions/logout"))["ended"]


async def test_logout_everywhere_and_a_removed_role_end_it_on_every_gateway(
    gateway: Gateway, cache_url: str, tmp_path: Path, engine: FakeEngine
) -> None:
    first = await invited(gateway)
    user = (await first.json("GET", "/me"))["user"]["id"]
    second = Browser(gateway)
    await second.login("ann@example.com")
    other = Gateway(gateway.database_url, cache_url, tmp_path, "gw-2")
    other.admin_key = gateway.admin_key
    async with other:
        there = Browser(other)
        there.cookies = dict(second.cookies)
        await there.json("GET", "/users")
        await gateway.admin("POST", f"/users/{user}", {"role": "viewer"})
        await other.refresh()
        await there.json("GET", "/users", status=403)
        await first.json("POST", "/sessions/logout_everywhere")
        await other.refresh()
        assert await code(there, "GET", "/me", {}) == (401, "session_ended")
    assert first.cookies == {}
    assert await code(second, "POST", "/sessions/refresh", {}) == (401, "session_ended")


async def test_own_sessions_and_nobody_elses(gateway: Gateway) -> None:
    ann, bob = await invited(gateway), await invited(gateway, email="bob@example.com")
    again = Browser(gateway, user_agent="another browser")
    await again.login("ann@example.com")
    page = await ann.json("GET", "/sessions")
    assert [(row["is_current"], row["method"]) for row in page["data"]] == [
        (False, "password"),
        (True, "invite"),
    ]
    assert page["data"][0]["user_agent"] == "another browser"
    await bob.json("DELETE", f"/sessions/{page['data'][0]['id']}", status=404)
    await ann.json("DELETE", f"/sessions/{page['data'][0]['id']}")
    await gateway.refresh()
    await again.json("GET", "/me", status=401)
    await ann.json("GET", "/me")
    assert (await gateway.admin("GET", "/sessions"))["data"] == [], (
        "the first owner's key has a user without any"
    )


async def test_too_many_attempts_are_429_with_a_time(gateway: Gateway) -> None:
    body = {"email": "nobody@example.com", "password": "wrong and long enough"}
    await Browser(gateway).json("POST", "/sessions", body, status=401)
    await gateway.sql("UPDATE login_attempts SET blocked_until = now() + interval '10 minutes'")
    answer = await Browser(gateway).send("POST", "/sessions", body)
    assert answer.status == 429
    assert 1 <= int(answer.headers["retry-after"]) <= 600


async def test_answers_are_no_caches(gateway: Gateway) -> None:
    browser = await invited(gateway)
    for answer in (
        await browser.send("GET", "/me"),
        await browser.send("GET", "/none"),
        await browser.send("POST", "/sessions", {"email": "x", "password": "wrong and long enough"}),
    ):
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.fixture
async def proxied(database_url: str, cache_url: str, tmp_path: Path) -> AsyncIterator[Gateway]:
    server = {"trusted_proxy_cidrs": ["127.0.0.0/8"]}
    async with Gateway(database_url, cache_url, tmp_path, server=server) as running:
        yield running


async def test_behind_a_trusted_proxy_its_word_for_host_and_scheme_counts(proxied: Gateway) -> None:
    made = await proxied.admin("POST", "/invites", {"email": "ann@example.com", "role": "viewer"})
    assert made["accept_url"].startswith(proxied.url + "/console/accept-invite#ti-")
    forwarded = {"x_forwarded_proto": "https", "x_forwarded_host": "console.example.com"}
    browser = Browser(proxied, origin="https://console.example.com", **forwarded)
    body = {"token": made["accept_url"].partition("#")[2], "name": "Ann", "password": PASSWORD}
    await browser.json("POST", "/invitations/accept", body)
    assert set(browser.cookies) == {"__Host-tollway", "__Secure-tollway-refresh"}
    await browser.json("GET", "/me")
    planted = Browser(proxied, origin="https://console.example.com", **forwarded)
    planted.cookies = {ACCESS_NAME: browser.cookies["__Host-tollway"]}
    await planted.json("GET", "/me", status=401)
    wrong = Browser(proxied, origin="http://console.example.com", **forwarded)
    wrong.cookies = dict(browser.cookies)
    await wrong.json("POST", "/me/password", {}, status=403)
