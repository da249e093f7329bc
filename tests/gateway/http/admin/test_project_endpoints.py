"""A project's endpoints, as its people manage them in the console: the same ones that its keys do."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from gateway.events import TENANT_EVENT_TYPES, Event, announce
from tests.gateway.alerts.webhooks.receiver import Receiver, serve_receiver
from tests.gateway.http.admin.browser import Browser, invited
from tests.gateway.http.admin.test_webhook_endpoints import body_for, deliver
from tests.harness import Gateway, Tenant

KIND = "budget.exhausted"


@pytest.fixture
def gateway_changes() -> dict[str, Any]:
    listed = {"key_pepper": "pepper-of-the-tests-0123456789", "webhook_allowed_cidrs": ["127.0.0.1/32"]}
    return {"security": listed}


def hooks(tenant: Tenant) -> str:
    return f"/projects/{tenant.id}/webhook_endpoints"


async def person(gateway: Gateway, tenant: Tenant, role: str) -> Browser:
    browser = await invited(gateway, "member", f"{role}@example.com", **{tenant.id: role})
    await gateway.refresh()
    return browser


async def test_the_console_and_a_key_have_the_same_endpoints(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    owner = await person(gateway, tenant, "owner")
    scopes = {"name": "hooks", "scopes": ["webhooks.write"]}
    key = (await gateway.admin("POST", f"/projects/{tenant.id}/api_keys", scopes))["value"]
    await gateway.refresh()
    types = await owner.json("GET", f"/projects/{tenant.id}/webhook_event_types")
    assert types["data"] == [*TENANT_EVENT_TYPES]
    async with serve_receiver(Receiver([200])) as receiver:
        made = await owner.json("POST", hooks(tenant), body_for(receiver.url, KIND))
        client = gateway.client(key)
        theirs = await client.get(f"/webhook_endpoints/{made['id']}", cast_to=dict[str, Any])
        assert theirs["url"] == receiver.url
        one = f"{hooks(tenant)}/{made['id']}"
        rotated = await owner.json(
            "POST", f"{one}/rotate_secret", {"keep_old_secret_active_for_24_hours": True}
        )
        tested = await owner.json("POST", f"{one}/test", {"event_type": KIND})
        assert tested["status_code"] == 200
        for secret in (made["signing_secret"], rotated["signing_secret"]):
            sent = receiver.taken[0]
            verifying = openai.OpenAI(api_key="none", webhook_secret=secret).webhooks
            verifying.verify_signature(sent.body.decode(), sent.headers)
    slack = await owner.json(
        "POST", hooks(tenant), body_for("https://hooks.slack.com/services/T/B/secret", KIND, format="slack")
    )
    assert slack["url"].endswith("secret")
    theirs = await client.get(f"/webhook_endpoints/{slack['id']}", cast_to=dict[str, Any])
    assert "secret"[:-4] + "secret"[-4:] not in theirs["url"], "whoever has it can write there"
    listed = await owner.json("GET", f"{hooks(tenant)}?limit=1")
    assert ([row["id"] for row in listed["data"]], listed["has_more"]) == ([slack["id"]], True)


async def test_deliveries_are_the_projects_own(gateway: Gateway) -> None:
    tenant, other = await gateway.tenant("mine"), await gateway.tenant("other")
    owner, member = await person(gateway, tenant, "owner"), await person(gateway, tenant, "member")
    async with serve_receiver(Receiver([500, 200])) as receiver:
        made = await owner.json("POST", hooks(tenant), body_for(receiver.url, KIND))
        one, now = f"{hooks(tenant)}/{made['id']}", gateway.app.clock.now()
        async with gateway.app.database.transaction() as connection:
            await announce(
                connection,
                [Event(KIND, other.id, "theirs", {}, now), Event(KIND, tenant.id, "ours", {}, now)],
            )
        assert await deliver(gateway) == 1, "another project's event goes elsewhere"
        [row] = (await member.json("GET", f"{one}/deliveries?status=pending"))["data"]
        assert (row["event_type"], row["project_id"], row["last_error"]) == (KIND, tenant.id, "500")
        shown = await member.json("GET", f"{one}/deliveries/{row['id']}")
        assert [attempt["status_code"] for attempt in shown["log"]] == [500]
        await owner.json("POST", f"{one}/deliveries/{row['id']}/replay", status=409)
        await gateway.sql("UPDATE delivery SET next_attempt_at = NULL WHERE id = $1", row["id"])
        again = await owner.json("POST", f"{one}/deliveries/{row['id']}/replay")
        assert again["status"] == "pending"
        assert await deliver(gateway) == 1
    assert [sent.id for sent in receiver.taken] == [row["id"]] * 2


async def test_an_endpoint_belongs_to_its_project_and_is_changed_by_its_owners(gateway: Gateway) -> None:
    tenant, other = await gateway.tenant("mine"), await gateway.tenant("other")
    owner, member = await person(gateway, tenant, "owner"), await person(gateway, tenant, "member")
    operators = await gateway.admin("POST", "/webhook_endpoints", body_for("https://ops.example.com/x"))
    theirs = await gateway.admin("POST", hooks(other), body_for("https://other.example.com/x", KIND))
    made = await owner.json("POST", hooks(tenant), body_for("https://mine.example.com/x", KIND))
    assert (made["project_id"], made["format"]) == (tenant.id, "standard")
    for method, path, body in (
        ("GET", "", None),
        ("POST", "", {"name": "mine now"}),
        ("DELETE", "", None),
        ("POST", "/rotate_secret", {}),
        ("POST", "/test", {"event_type": KIND}),
        ("POST", "/enable", None),
        ("GET", "/deliveries", None),
        ("GET", "/deliveries/d", None),
        ("POST", "/deliveries/d/replay", None),
    ):
        for stranger in (operators["id"], theirs["id"]):
            await owner.json(method, f"{hooks(tenant)}/{stranger}{path}", body, status=404)
            await gateway.admin(method, f"{hooks(tenant)}/{stranger}{path}", body, status=404)
        if method != "GET":
            await member.json(method, f"{hooks(tenant)}/{made['id']}{path}", body, status=403)
    await owner.json("GET", hooks(other), status=404)
    await owner.json("GET", "/webhook_endpoints", status=403)
    refused = await owner.json(
        "POST", hooks(tenant), body_for("https://a.example/x", "ledger.drift"), status=400
    )
    assert refused["error"]["param"] == "event_types", "what is the operator's to know"
    changed = await owner.json("POST", f"{hooks(tenant)}/{made['id']}", {"name": "other"})
    assert changed["name"] == "other"
    await owner.json("DELETE", f"{hooks(tenant)}/{made['id']}")
    assert (await owner.json("GET", hooks(tenant)))["data"] == []
