"""Who is calling, from where and for what."""

from __future__ import annotations

from tests.fakes.engine import FakeEngine
from tests.gateway.http.answers import BODY, CHAT, refused, row
from tests.harness import Gateway


async def test_who_is_calling(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    for headers in ({}, {"authorization": "Basic abc"}, {"authorization": "Bearer"}):
        error = await refused(gateway, "POST", CHAT, BODY, headers=headers)
        assert row(error) == (401, "invalid_request_error", None)
    wrong = tenant.key[:-4] + "AAAA"
    for key in ("sk-somebody-elses-key-0123456789", wrong, gateway.admin_key):
        error = await refused(gateway, "POST", CHAT, BODY, key=key)
        assert row(error) == (401, "invalid_request_error", "invalid_api_key")
        assert key not in error["message"]
    await gateway.admin("DELETE", f"/projects/{tenant.id}/api_keys/{tenant.key_id}")
    await gateway.refresh()
    assert row(await refused(gateway, "GET", "/v1/models", key=tenant.key))[2] == "invalid_api_key"
    assert engine.requests == []


async def test_from_where_and_for_what(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    keys = f"/projects/{tenant.id}/api_keys"
    elsewhere = await gateway.admin("POST", keys, {"name": "ip", "ip_allow_list": ["203.0.113.0/24"]})
    error = await refused(
        gateway, "POST", CHAT, BODY, key=elsewhere["value"], headers={"x-forwarded-for": "203.0.113.9"}
    )
    assert row(error) == (401, "invalid_request_error", "ip_not_authorized")
    narrow = await gateway.admin("POST", keys, {"name": "narrow", "scopes": ["usage.read"]})
    error = await refused(gateway, "POST", CHAT, BODY, key=narrow["value"])
    assert row(error) == (403, "invalid_request_error", "insufficient_permissions")
    assert "model.request" in error["message"]
