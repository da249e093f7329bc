"""Signing in through a real provider, there and back, and everything that must not get anybody in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
from joserfc.jwk import RSAKey

from tests.fakes.provider import CLIENT, SECRET, FakeProvider
from tests.gateway.http.admin.browser import ROOT, Browser, invited
from tests.harness import Gateway

CALLBACK = f"{ROOT}/sessions/oidc/callback"


@dataclass
class Setting:
    gateway: Gateway
    provider: FakeProvider

    async def configure(self, **changes: Any) -> Any:
        body = {
            "issuer": self.provider.issuer,
            "client_id": CLIENT,
            "client_secret": SECRET,
            "name": "Acme",
            "origin": self.gateway.url,
        }
        return await self.gateway.admin("POST", "/identity_provider", body | changes)

    async def go(self, browser: Browser, query: str = "") -> str:
        """Where the provider sends the browser back to."""
        answer = await browser.gateway.request(
            "GET", f"{ROOT}/sessions/oidc/start{query}", allow_redirects=False
        )
        assert answer.status == 303
        browser.keep(answer)
        async with aiohttp.ClientSession() as http:
            there = await http.get(answer.headers["location"], allow_redirects=False)
            assert there.status == 302, await there.text()
            return there.headers["location"].removeprefix(self.gateway.url)

    async def come_back(self, browser: Browser, url: str) -> str:
        """The page that the browser is sent to in the end."""
        headers = {"cookie": "; ".join(f"{name}={value}" for name, value in browser.cookies.items())}
        answer = await self.gateway.request("GET", url, headers=headers, allow_redirects=False)
        assert answer.status == 303
        browser.keep(answer)
        return answer.headers["location"]

    async def sign_in(self, query: str = "") -> tuple[Browser, str]:
        browser = Browser(self.gateway)
        return browser, await self.come_back(browser, await self.go(browser, query))


@pytest.fixture
async def setting(gateway: Gateway) -> AsyncIterator[Setting]:
    async with FakeProvider(gateway.url + CALLBACK) as provider:
        found = Setting(gateway, provider)
        await found.configure()
        yield found


async def test_there_and_back_as_a_user_with_the_verified_address(setting: Setting) -> None:
    """Linked once by the address, and known by the provider's own name for them from then on."""
    gateway, provider = setting.gateway, setting.provider
    ann = await (await invited(gateway, "admin")).json("GET", "/me")
    methods = await Browser(gateway).json("GET", "/sessions/methods")
    assert methods["oidc"] == {"name": "Acme", "start_path": f"{ROOT}/sessions/oidc/start"}
    browser, page = await setting.sign_in("?return_to=/console/tenants")
    assert page == "/console/tenants"
    me = await browser.json("GET", "/me")
    assert (me["user"], me["roles"]) == (ann["user"], ["admin"])
    assert "tollway-oidc" not in browser.cookies
    provider.person |= {"email": "renamed@example.com", "email_verified": False}
    again, _ = await setting.sign_in()
    assert (await again.json("GET", "/me"))["user"]["id"] == ann["user"]["id"]
    rows = (await gateway.admin("GET", "/audit_logs?limit=100"))["data"]
    assert [row["action"] for row in rows].count("user.identity_linked") == 1
    assert SECRET not in str(rows)


async def test_nobody_becomes_a_user_unless_that_is_set(setting: Setting) -> None:
    browser, page = await setting.sign_in()
    assert (page, browser.cookies) == ("/console/sign-in?error=unknown_user", {})
    await setting.configure(allows_registration=True, default_role="viewer")
    browser, _ = await setting.sign_in()
    me = await browser.json("GET", "/me")
    assert (me["user"]["email"], me["user"]["name"], me["roles"]) == ("ann@example.com", "Ann", ["viewer"])


async def test_an_address_that_is_not_verified_is_no_address(setting: Setting) -> None:
    await invited(setting.gateway)
    await setting.configure(allows_registration=True)
    for verified in (False, None, "true", 1):
        setting.provider.person["email_verified"] = verified
        _, page = await setting.sign_in()
        assert page == "/console/sign-in?error=email_not_verified", verified


async def test_roles_by_a_claim_hold_from_each_sign_in(setting: Setting) -> None:
    """The strongest counts; without any nobody gets in; and the last owner stays one."""
    groups = {"role_claim": "groups", "role_map": {"ops": "admin", "money": "billing"}}
    await setting.configure(allows_registration=True, **groups)
    person = setting.provider.person
    for value, role in ((["money", "ops"], "admin"), ("money", "billing"), (["x", "ops"], "admin")):
        person["groups"] = value
        browser, _ = await setting.sign_in()
        await setting.gateway.refresh()
        assert (await browser.json("GET", "/me"))["roles"] == [role]
    for nothing in ([], ["x"], None, 5):
        person["groups"] = nothing
        _, page = await setting.sign_in()
        assert page == "/console/sign-in?error=no_role"


async def test_what_only_the_users_endpoint_says(setting: Setting) -> None:
    await invited(setting.gateway)
    setting.provider.omitted = ("email", "email_verified", "name")
    browser, _ = await setting.sign_in()
    assert (await browser.json("GET", "/me"))["user"]["email"] == "ann@example.com"
    setting.provider.claims = {"sub": "somebody else"}
    _, page = await setting.sign_in()
    assert page == "/console/sign-in?error=bad_token"


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "another client"},
        {"aud": ["tollway", "another"]},
        {"aud": ["tollway", "another"], "azp": "another"},
        {"iss": "https://somebody.example"},
        {"nonce": "another"},
        {"nonce": None},
        {"exp": 1},
        {"iat": 9_999_999_999, "exp": 9_999_999_999},
        {"exp": None},
        {"sub": None},
        {"sub": ""},
    ],
)
async def test_tokens_for_others_or_of_other_times_are_refused(
    setting: Setting, claims: dict[str, Any]
) -> None:
    await invited(setting.gateway)
    setting.provider.claims = claims
    browser, page = await setting.sign_in()
    assert (page, browser.cookies) == ("/console/sign-in?error=bad_token", {})


async def test_only_the_providers_own_key_signs(setting: Setting) -> None:
    await invited(setting.gateway)
    setting.provider.signs_with = RSAKey.generate_key(2048)
    _, page = await setting.sign_in()
    assert page == "/console/sign-in?error=bad_token"
    setting.provider.signs_with = None
    await setting.sign_in()
    assert setting.provider.key_reads == 1, "keys are kept"


async def test_new_keys_are_found_when_they_are_met(setting: Setting) -> None:
    await invited(setting.gateway)
    await setting.sign_in()
    setting.provider.rotate_key()
    oidc = setting.gateway.app.admin.oidc
    [kept] = oidc._provider._kept.values()
    kept.keys_at -= 11  # read eleven seconds earlier
    _, page = await setting.sign_in()
    assert (page, setting.provider.key_reads) == ("/console/", 2)
    setting.provider.rotate_key()
    _, page = await setting.sign_in()
    assert page == "/console/sign-in?error=bad_token", (
        "a made-up key id does not make the gateway ask each time"
    )


async def test_a_way_back_belongs_to_its_browser_and_is_good_once(setting: Setting) -> None:
    await invited(setting.gateway)
    mine, theirs = Browser(setting.gateway), Browser(setting.gateway)
    back = await setting.go(mine)
    await setting.go(theirs)
    assert await setting.come_back(theirs, back) == "/console/sign-in?error=bad_state"
    assert await setting.come_back(Browser(setting.gateway), back) == "/console/sign-in?error=bad_state"
    kept = dict(mine.cookies)
    assert await setting.come_back(mine, back) == "/console/"
    again = Browser(setting.gateway)
    again.cookies = kept
    assert await setting.come_back(again, back) == "/console/sign-in?error=provider_refused"
    refused = f"{CALLBACK}?error=access_denied&state={parse_qs(urlsplit(back).query)['state'][0]}"
    assert (
        await setting.come_back(Browser(setting.gateway), refused)
        == "/console/sign-in?error=provider_refused"
    )


@pytest.mark.parametrize(
    "page", ["https://evil.example", "//evil.example", "/console//evil", "/console/\\evil", "x"]
)
async def test_the_way_leads_back_to_the_console_alone(setting: Setting, page: str) -> None:
    await invited(setting.gateway)
    _, there = await setting.sign_in(f"?return_to={page}")
    assert there == "/console/"


async def test_a_provider_that_lies_or_is_away(setting: Setting) -> None:
    provider = setting.provider
    start = f"{ROOT}/sessions/oidc/start"
    provider.description = {"issuer": "https://somebody.example"}
    answer = await setting.gateway.request("GET", start, allow_redirects=False)
    assert answer.headers["location"] == "/console/sign-in?error=bad_provider"
    await setting.configure(issuer="http://127.0.0.1:1/none")
    answer = await setting.gateway.request("GET", start, allow_redirects=False)
    assert answer.headers["location"] == "/console/sign-in?error=provider_unavailable"


async def test_configuring_is_the_owners_and_shows_no_secret(setting: Setting) -> None:
    gateway = setting.gateway
    shown = await gateway.admin("GET", "/identity_provider")
    assert (shown["has_client_secret"], shown["redirect_uri"]) == (True, gateway.url + CALLBACK)
    [row] = await gateway.sql("SELECT client_secret_sealed FROM identity_provider")
    assert SECRET.encode() not in row["client_secret_sealed"]
    assert (await setting.configure(client_secret=None))["has_client_secret"], "null keeps it"
    assert not (await setting.configure(client_secret=""))["has_client_secret"]
    for wrong in (
        {"issuer": "http://provider.example"},
        {"issuer": "https://provider.example?x"},
        {"origin": "https://console.example.com/"},
        {"scopes": ["email"]},
        {"role_map": {"x": "king"}},
        {"default_role": "owner"},
    ):
        body = {"issuer": "https://p.example", "client_id": "c", "origin": "https://c.example"} | wrong
        await gateway.admin("POST", "/identity_provider", body, status=400)
    await setting.configure(enabled=False)
    assert (await Browser(gateway).json("GET", "/sessions/methods"))["oidc"] is None
    await gateway.admin("DELETE", "/identity_provider")
    await gateway.admin("GET", "/identity_provider", status=404)
    answer = await gateway.request("GET", f"{ROOT}/sessions/oidc/start", allow_redirects=False)
    assert answer.status == 404
