"""Who a call is from: a key of any kind, a session, and what counts when there are two."""

from __future__ import annotations

from typing import Any

from tests.gateway.http.admin.browser import ROOT, invited
from tests.harness import Gateway


async def kind(gateway: Gateway, key: str | None = None, **headers: str) -> Any:
    answer = await gateway.request("GET", f"{ROOT}/me", key=key, headers=headers)
    found = await answer.json()
    return (answer.status, found.get("kind") or found["error"]["code"])


async def test_each_kind_of_caller(gateway: Gateway) -> None:
    tenant, browser = await gateway.tenant(), await invited(gateway)
    await gateway.refresh()
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    assert await kind(gateway, gateway.admin_key) == (200, "admin_key")
    assert await kind(gateway, cookie=cookie) == (200, "user")
    assert await kind(gateway, gateway.admin_key, cookie=cookie) == (200, "admin_key"), (
        "a key says who is meant"
    )
    assert await kind(gateway, "tw-00000000-x", cookie=cookie) == (401, "invalid_api_key")
    assert await kind(gateway, tenant.key) == (403, "insufficient_permissions"), (
        "known, and told what it lacks"
    )
    assert (await kind(gateway))[0] == 401
