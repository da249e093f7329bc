"""The operator's endpoints: every format, the log of deliveries, replay, tests, enabling; and a look at the tenants'."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.alerts.courier import Courier
from gateway.alerts.webhooks.channel import WebhookChannel
from gateway.events import EVENT_TYPES, Event, announce
from gateway.ids import IdSource
from gateway.obs.metrics import Metrics
from tests.gateway.alerts.webhooks.receiver import Receiver, serve_receiver
from tests.harness import Gateway

HOOKS = "/webhook_endpoints"


@pytest.fixture
def gateway_changes() -> dict[str, Any]:
    listed = {"key_pepper": "pepper-of-the-tests-0123456789", "webhook_allowed_cidrs": ["127.0.0.1/32"]}
    return {"security": listed}


async def deliver(gateway: Gateway, *keys: str) -> int:
    """Announces drifts and brings them, as a worker does."""
    app = gateway.app
    channel = WebhookChannel(app.database, app.webhooks.sender, app.webhooks.vault, app.clock)
    courier = Courier(
        app.database, [channel], clock=app.clock, ids=IdSource(), draw=lambda bound: 0, metrics=Metrics()
    )
    async with app.database.transaction() as connection:
        await announce(
            connection, [Event("ledger.drift", None, key, {"n": key}, app.clock.now()) for key in keys]
        )
    return await courier.run_once()


def body_for(url: str, *types: str, **fields: Any) -> dict[str, Any]:
    return {"name": "ops", "url": url, "event_types": [*(types or ("ledger.drift",))], **fields}


async def test_an_endpoints_life(gateway: Gateway) -> None:
    types = await gateway.admin("GET", "/webhook_event_types")
    assert types["data"] == [*EVENT_TYPES]
    made = await gateway.admin("POST", HOOKS, body_for("https://hooks.example.com/x"))
    assert made["signing_secret"].startswith("whsec_")
    assert (made["project_id"], made["format"], made["status"]) == (None, "standard", "enabled")
    found = await gateway.admin("GET", f"{HOOKS}/{made['id']}")
    assert found == {name: value for name, value in made.items() if name != "signing_secret"}
    changed = await gateway.admin(
        "POST", f"{HOOKS}/{made['id']}", {"name": "other", "event_types": ["key.expiring"]}
    )
    assert (changed["name"], changed["event_types"]) == ("other", ["key.expiring"])
    rotated = await gateway.admin(
        "POST", f"{HOOKS}/{made['id']}/rotate_secret", {"keep_old_secret_active_for_24_hours": True}
    )
    assert rotated["signing_secret"] != made["signing_secret"]
    await gateway.admin("DELETE", f"{HOOKS}/{made['id']}")
    for method, path, body in (
        ("GET", "", None),
        ("POST", "", {}),
        ("DELETE", "", None),
        ("POST", "/rotate_secret", {}),
        ("POST", "/test", {"event_type": "ledger.drift"}),
        ("POST", "/enable", None),
        ("GET", "/deliveries", None),
        ("GET", "/deliveries/d", None),
        ("POST", "/deliveries/d/replay", None),
    ):
        await gateway.admin(method, f"{HOOKS}/{made['id']}{path}", body, status=404)
    secrets = await gateway.sql(
        "SELECT details::text AS t FROM audit_log WHERE resource_kind = 'webhook_endpoint'"
    )
    assert len(secrets) == 4
    assert "whsec_" + made["signing_secret"][6:20] not in str(secrets)


async def test_the_log_of_deliveries(gateway: Gateway) -> None:
    async with serve_receiver(Receiver([500, 200])) as receiver:
        made = await gateway.admin("POST", HOOKS, body_for(receiver.url))
        one = f"{HOOKS}/{made['id']}"
        assert await deliver(gateway, "a") == 1
        assert await deliver(gateway, "b", "c") == 2
        page = await gateway.admin("GET", f"{one}/deliveries?limit=2")
        assert ([row["status"] for row in page["data"]], page["has_more"]) == (["delivered"] * 2, True)
        rest = await gateway.admin("GET", f"{one}/deliveries?after={page['last_id']}")
        [pending] = rest["data"]
        assert (pending["status"], pending["attempts"], pending["last_error"]) == ("pending", 1, "500")
        for status, count in (("pending", 1), ("delivered", 2), ("failed", 0)):
            found = await gateway.admin("GET", f"{one}/deliveries?status={status}")
            assert len(found["data"]) == count
        shown = await gateway.admin("GET", f"{one}/deliveries/{pending['id']}")
        assert [(row["number"], row["status_code"], row["error"]) for row in shown["log"]] == [
            (1, 500, "500")
        ]
        assert shown["event_type"] == "ledger.drift"
        await gateway.admin("POST", f"{one}/deliveries/{pending['id']}/replay", status=409)
        again = await gateway.admin("POST", f"{one}/deliveries/{page['last_id']}/replay")
        assert again["status"] == "pending"
        assert await deliver(gateway) == 1
        other = await gateway.admin("POST", HOOKS, body_for(receiver.url))
        path = f"{HOOKS}/{other['id']}/deliveries/{page['last_id']}"
        await gateway.admin("GET", path, status=404)
        await gateway.admin("POST", f"{path}/replay", status=404)
    ids = [one.id for one in receiver.taken]
    assert len(ids) == 4
    assert len(set(ids)) == 3
    assert ids[-1] == page["last_id"]


async def test_disabled_and_enabled(gateway: Gateway) -> None:
    async with serve_receiver(Receiver([410, 200])) as receiver:
        made = await gateway.admin("POST", HOOKS, body_for(receiver.url))
        one = f"{HOOKS}/{made['id']}"
        await deliver(gateway, "a")
        shown = await gateway.admin("GET", one)
        assert (shown["status"], shown["disabled_reason"]) == ("disabled", "gone")
        [failed] = (await gateway.admin("GET", f"{one}/deliveries?status=failed"))["data"]
        await gateway.admin("POST", f"{one}/deliveries/{failed['id']}/replay", status=409)
        tested = await gateway.admin("POST", f"{one}/test", {"event_type": "ledger.drift"})
        assert (tested["status_code"], tested["success"]) == (200, True)
        assert (await gateway.admin("POST", f"{one}/enable"))["status"] == "enabled"
        await gateway.admin("POST", f"{one}/deliveries/{failed['id']}/replay")
        assert await deliver(gateway) == 1
    assert receiver.taken[0].id == receiver.taken[2].id == failed["id"]
    [alert] = (await gateway.admin("GET", "/alerts?type=webhook_endpoint.disabled"))["data"]
    assert alert["data"]["webhook_endpoint_id"] == made["id"]


async def test_each_format_arrives(gateway: Gateway) -> None:
    async with serve_receiver() as receiver:
        for name in ("standard", "slack", "alertmanager"):
            await gateway.admin("POST", HOOKS, body_for(receiver.url, format=name))
        body = body_for(receiver.url, format="pagerduty", routing_key="k" * 32)
        pager = await gateway.admin("POST", HOOKS, body)
        assert "k" * 32 not in str(pager)
        await gateway.admin("POST", HOOKS, body_for(receiver.url, format="pagerduty"), status=400)
        await gateway.admin("POST", HOOKS, body_for(receiver.url, format="teams"), status=400)
        assert await deliver(gateway, "a") == 4
    bodies = [orjson.loads(one.body) for one in receiver.taken]
    shapes = {tuple(sorted(one if isinstance(one, dict) else one[0])) for one in bodies}
    assert shapes == {
        ("created_at", "data", "id", "object", "project_id", "timestamp", "type"),
        ("blocks", "text"),
        ("annotations", "labels", "startsAt"),
        ("client", "dedup_key", "event_action", "payload", "routing_key"),
    }


async def test_pages_and_a_look_at_a_tenants(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    scopes = {"name": "hooks", "scopes": ["webhooks.write"]}
    key = (await gateway.admin("POST", f"/projects/{tenant.id}/api_keys", scopes))["value"]
    await gateway.refresh()
    body = body_for("https://hooks.example.com/", "batch.failed")
    theirs = await (await gateway.request("POST", "/v1/webhook_endpoints", body, key)).json()
    made = [(await gateway.admin("POST", HOOKS, body))["id"] for _ in range(3)]
    page = await gateway.admin("GET", f"{HOOKS}?limit=2")
    assert ([row["id"] for row in page["data"]], page["has_more"]) == (made[:0:-1], True)
    rest = await gateway.admin("GET", f"{HOOKS}?limit=2&after={page['last_id']}")
    assert [row["id"] for row in rest["data"]] == made[:1]
    [seen] = (await gateway.admin("GET", f"{HOOKS}?project_id={tenant.id}"))["data"]
    assert (seen["id"], seen["project_id"]) == (theirs["id"], tenant.id)
    await gateway.admin("POST", f"{HOOKS}/{theirs['id']}", {"event_types": ["ledger.drift"]}, status=400)
    assert (await gateway.admin("POST", f"{HOOKS}/{theirs['id']}/enable"))["project_id"] == tenant.id


async def test_the_address_of_a_slack_channel_is_shown_once(gateway: Gateway) -> None:
    url = "https://hooks.slack.com/services/T000/B000/abcdefgh"
    made = await gateway.admin("POST", HOOKS, body_for(url, format="slack"))
    assert made["url"] == url
    shown = "https://hooks.slack.com/…efgh"
    one = f"{HOOKS}/{made['id']}"
    assert (await gateway.admin("GET", one))["url"] == shown
    assert [row["url"] for row in (await gateway.admin("GET", HOOKS))["data"]] == [shown]
    assert (await gateway.admin("POST", one, {"name": "again", "url": shown}))["url"] == shown
    assert (await gateway.admin("POST", f"{one}/rotate_secret", {}))["url"] == shown
    [row] = await gateway.sql("SELECT url FROM webhook_endpoint")
    assert row["url"] == url, "what is shown was sent back, and changed nothing"
    await gateway.admin("POST", one, {"url": url + "xyz0"})
    [row] = await gateway.sql("SELECT url FROM webhook_endpoint")
    assert row["url"] == url + "xyz0"
