"""`client.webhooks.*` of the strict `openai` client, from the endpoint to the event it unwraps."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from openai.types.webhooks import WebhookEndpoint, WebhookEndpointWithSecret

from gateway.alerts.courier import Courier
from gateway.alerts.webhooks.channel import WebhookChannel
from gateway.events import TENANT_EVENT_TYPES, Event, announce
from gateway.ids import IdSource
from gateway.obs.metrics import Metrics
from tests.gateway.alerts.webhooks.receiver import serve_receiver
from tests.harness import Gateway, Tenant

URL = "https://hooks.example.com/tollway"
PATH = "/v1/webhook_endpoints"


@pytest.fixture
def gateway_changes() -> dict[str, Any]:
    listed = {"key_pepper": "pepper-of-the-tests-0123456789", "webhook_allowed_cidrs": ["127.0.0.1/32"]}
    return {"security": listed}


async def key_with(gateway: Gateway, tenant: Tenant, *scopes: str) -> str:
    body = {"name": "hooks", "scopes": [*scopes]}
    made = await gateway.admin("POST", f"/projects/{tenant.id}/api_keys", body)
    await gateway.refresh()
    return str(made["value"])


async def client_of(gateway: Gateway, tenant: Tenant, **options: Any) -> openai.AsyncOpenAI:
    key = await key_with(gateway, tenant, "webhooks.write")
    return gateway.client(key, _strict_response_validation=True, max_retries=0, **options)


async def test_an_endpoints_life(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    client = await client_of(gateway, tenant)
    types = await client.webhooks.event_types.list()
    assert types.data == [*TENANT_EVENT_TYPES]
    made = await client.webhooks.create(event_types=["batch.completed", "batch.failed"], name="ours", url=URL)
    assert isinstance(made, WebhookEndpointWithSecret)
    assert made.signing_secret.startswith("whsec_")
    assert made.signing_secret_hint is not None
    assert made.signing_secret_hint.endswith(made.signing_secret.rstrip("=")[-4:])
    assert (made.url, made.event_types, made.updated_at) == (
        URL,
        ["batch.completed", "batch.failed"],
        made.created_at,
    )
    found = await client.webhooks.retrieve(made.id)
    assert isinstance(found, WebhookEndpoint)
    assert found.model_dump() == {
        name: value for name, value in made.model_dump().items() if name != "signing_secret"
    }
    changed = await client.webhooks.update(made.id, name="theirs", event_types=["batch.expired"])
    assert (changed.name, changed.event_types, changed.url) == ("theirs", ["batch.expired"], URL)
    rotated = await client.webhooks.rotate_secret(made.id, keep_old_secret_active_for_24_hours=True)
    assert rotated.signing_secret != made.signing_secret
    assert (await client.webhooks.rotate_secret(made.id)).signing_secret_hint != rotated.signing_secret_hint
    gone = await client.webhooks.delete(made.id)
    assert (gone.id, gone.deleted) == (made.id, True)
    with pytest.raises(openai.NotFoundError):
        await client.webhooks.retrieve(made.id)
    rows = await gateway.sql(
        "SELECT actor_kind, details::text AS details FROM audit_log WHERE resource_id = $1", made.id
    )
    assert len(rows) == 5
    assert {row["actor_kind"] for row in rows} == {"api_key"}
    assert "whsec_" + made.signing_secret[6:20] not in str(rows)


async def test_pages(gateway: Gateway) -> None:
    client = await client_of(gateway, await gateway.tenant())
    made = [
        (await client.webhooks.create(event_types=["batch.failed"], name=f"n{number}", url=URL)).id
        for number in range(5)
    ]
    assert [one.id async for one in client.webhooks.list(limit=2)] == made[::-1]
    page = await client.webhooks.list(limit=2)
    assert [one.id for one in page.data] == made[:2:-1]
    assert page.has_more is True
    assert [one.id async for one in client.webhooks.list()] == made[::-1]


async def test_events_arrive_and_unwrap(gateway: Gateway) -> None:
    """Through the courier that a worker runs, on the gateway's own database."""
    client = await client_of(gateway, await gateway.tenant())
    mine, app = (await gateway.sql("SELECT id FROM tenant"))[0]["id"], gateway.app
    channel = WebhookChannel(app.database, app.webhooks.sender, app.webhooks.vault, app.clock)
    courier = Courier(
        app.database, [channel], clock=app.clock, ids=IdSource(), draw=lambda bound: 0, metrics=Metrics()
    )
    async with serve_receiver() as receiver:
        made = await client.webhooks.create(event_types=["batch.completed"], name="ours", url=receiver.url)
        tested = await client.webhooks.test(made.id, event_type="batch.completed")
        assert (tested.status_code, tested.event_type, tested.webhook_endpoint_id) == (
            200,
            "batch.completed",
            made.id,
        )
        async with app.database.transaction() as connection:
            event = Event("batch.completed", mine, "batch_1", {"id": "batch_1"}, app.clock.now())
            await announce(connection, [event])
        assert await courier.run_once() == 1
    for taken, batch_id in zip(receiver.taken, ("batch_test", "batch_1"), strict=True):
        found = client.webhooks.unwrap(taken.body, taken.headers, secret=made.signing_secret)
        assert found.type == "batch.completed"
        assert found.data.id == batch_id
    assert receiver.taken[1].headers["webhook-id"].startswith("delivery_")


async def test_a_test_without_an_answer_is_no_servers_error(gateway: Gateway) -> None:
    client = await client_of(gateway, await gateway.tenant())
    async with serve_receiver() as receiver:
        pass
    made = await client.webhooks.create(event_types=["batch.failed"], name="n", url=receiver.url)
    with pytest.raises(openai.BadRequestError) as caught:
        await client.webhooks.test(made.id, event_type="batch.failed")
    assert caught.value.code == "webhook_endpoint_unreachable"


async def test_another_tenants_endpoint_cannot_be_told_from_none(gateway: Gateway) -> None:
    owner, stranger = await gateway.tenant("owner"), await gateway.tenant("stranger")
    made = await (await client_of(gateway, owner)).webhooks.create(
        event_types=["batch.failed"], name="n", url=URL
    )
    key = await key_with(gateway, stranger, "webhooks.write", "webhooks.read")
    answers = []
    for endpoint_id in (made.id, "we_" + "0" * 32):
        for method, part, body in (
            ("GET", "", None),
            ("POST", "", {"name": "x"}),
            ("DELETE", "", None),
            ("POST", "/rotate_secret", {}),
            ("POST", "/test", {"event_type": "batch.failed"}),
        ):
            answer = await gateway.request(method, f"{PATH}/{endpoint_id}{part}", body, key)
            answers.append((answer.status, await answer.read()))
    assert answers[:5] == answers[5:]
    assert {status for status, _ in answers} == {404}
    listed = await (await gateway.request("GET", PATH, key=key)).json()
    assert listed == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}
    after = await (await gateway.request("GET", f"{PATH}?after={made.id}", key=key)).json()
    assert after["data"] == []


async def test_scopes(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    reader, nobody = (
        await key_with(gateway, tenant, "webhooks.read"),
        await key_with(gateway, tenant, "usage.read"),
    )
    body = {"event_types": ["batch.failed"], "name": "n", "url": URL}
    for path in (PATH, "/v1/webhook_event_types"):
        assert (await gateway.request("GET", path, key=reader)).status == 200
        refused = await gateway.request("GET", path, key=nobody)
        assert refused.status == 403
        assert "webhooks.read" in (await refused.json())["error"]["message"]
    refused = await gateway.request("POST", PATH, body, reader)
    assert refused.status == 403
    assert "webhooks.write" in (await refused.json())["error"]["message"]
    assert (await gateway.request("POST", PATH, body, gateway.admin_key)).status == 401, "no tenant's key"
    assert (await gateway.request("PUT", f"{PATH}/we_1", key=reader)).status == 405
    assert (await gateway.request("GET", f"{PATH}/we_1/none", key=reader)).status == 404


REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"name": "n", "url": URL}, "event_types"),
    ({"event_types": ["batch.failed"], "url": URL}, "name"),
    ({"event_types": ["batch.failed"], "name": "n"}, "url"),
    ({"event_types": [], "name": "n", "url": URL}, "event_types"),
    ({"event_types": "batch.failed", "name": "n", "url": URL}, "event_types"),
    ({"event_types": ["ledger.drift"], "name": "n", "url": URL}, "event_types"),
    ({"event_types": ["batch.failed"], "name": " ", "url": URL}, "name"),
    ({"event_types": ["batch.failed"], "name": "n" * 201, "url": URL}, "name"),
    ({"event_types": ["batch.failed"], "name": 7, "url": URL}, "name"),
    ({"event_types": ["batch.failed"], "name": "n", "url": "https://192.168.0.1/"}, "url"),
    ({"event_types": ["batch.failed"], "name": "n", "url": "https://metadata.google.internal/"}, "url"),
    ({"event_types": ["batch.failed"], "name": "n", "url": URL, "secret": "mine"}, "secret"),
)


async def test_what_is_refused(gateway: Gateway) -> None:
    key = await key_with(gateway, await gateway.tenant(), "webhooks.write")
    for body, param in REFUSED:
        answer = await gateway.request("POST", PATH, body, key)
        assert (answer.status, (await answer.json())["error"]["param"]) == (400, param), body
