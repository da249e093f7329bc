"""Routes called for real: what they answer is what the description says, and nothing is described in vain.

What the strict client of the conformance test calls is compared there; here is the rest.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway.ledger.repository.rollups import fold_usage
from tests.fakes.engine import FakeEngine
from tests.fakes.script import Script
from tests.gateway.alerts.webhooks.receiver import serve_receiver
from tests.gateway.http.admin.browser import PASSWORD, Browser, invited
from tests.gateway.http.admin.exporting import work
from tests.gateway.http.description.calls import BY_THE_STRICT_CLIENT
from tests.gateway.http.description.promises import the_promises
from tests.harness import SERVED, SKU, Gateway, Tenant

ASK: dict[str, Any] = {"model": SERVED, "messages": [{"role": "user", "content": "one two"}]}
DAYS = {"start_date": "2026-01-10", "end_date": "2026-01-12"}
PLENTY = 10**12
# Of the console: people, sessions, alerts, objectives, endpoints. `Gateway.admin` compares wherever it is used.
IN_THEIR_OWN_TESTS = {
    *(
        "sessions",
        "invitations",
        "invites",
        "users",
        "identity_providers",
        "password_resets",
        "overview",
        "live",
    ),
    *("objectives", "slo", "alerts", "alert_episodes", "silences", "webhook_endpoints", "webhook_deliveries"),
}


@pytest.fixture
def gateway_changes(tmp_path: Path) -> dict[str, Any]:
    listed = {"key_pepper": "pepper-of-the-tests-0123456789", "webhook_allowed_cidrs": ["127.0.0.1/32"]}
    return {"exports": {"destination": str(tmp_path / "exports")}, "security": listed}


async def test_every_route_answers_as_it_is_described(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    start = await the_data_plane(gateway, tenant)
    await the_pools(gateway, engine)
    await the_projects_own(gateway, tenant)
    await the_money(gateway, tenant)
    await the_usage(gateway, start)
    await the_exports(gateway, tenant)
    await the_people(gateway)
    await the_webhooks(gateway, tenant)
    await the_files(gateway, engine, tenant)
    await the_promises(gateway, tenant)
    described = gateway.description
    missing = described.operations - described.seen - BY_THE_STRICT_CLIENT
    assert {route for route in missing if resource_of(route) not in IN_THEIR_OWN_TESTS} == set()


def resource_of(route: str) -> str:
    """`pools` of `GET /v1/organization/pools/{pool_id}`."""
    return route.split()[1].removeprefix("/v1/organization/").split("/")[0]


async def ask(
    gateway: Gateway, key: str | None, method: str, path: str, body: Any = None, **options: Any
) -> Any:
    """The answer's JSON, if it is that, compared with the description."""
    answer = await gateway.request(method, path, body, key, **options)
    raw, kind = await answer.read(), answer.headers["content-type"]
    assert answer.status == 200, raw
    gateway.description.check(method, answer.url.path, answer.status, kind, raw)
    return await answer.json() if kind == "application/json" else raw


async def the_data_plane(gateway: Gateway, tenant: Tenant) -> int:
    """A Unix time before the first request."""
    streamed = {"stream": True, "stream_options": {"include_usage": True}}
    for path, body in (
        ("chat/completions", ASK),
        ("completions", {"model": SERVED, "prompt": "one two"}),
        ("responses", {"model": SERVED, "input": "one two"}),
    ):
        await ask(gateway, tenant.key, "POST", f"/v1/{path}", body)
        more = {"stream": True} if path == "responses" else streamed
        raw = await ask(gateway, tenant.key, "POST", f"/v1/{path}", body | more)
        assert raw.count(b"data: ") > 3
    chat = f"/v1/organization/projects/{tenant.id}/chat/completions"
    await ask(gateway, gateway.admin_key, "POST", chat, ASK)
    await ask(gateway, tenant.key, "POST", "/v1/embeddings", {"model": SERVED, "input": "one"})
    await ask(gateway, tenant.key, "GET", "/v1/models")
    await ask(gateway, tenant.key, "GET", f"/v1/models/{SERVED}")
    for path, key in (("/healthz", None), ("/readyz", None), ("/metrics", gateway.admin_key)):
        await ask(gateway, key, "GET", path)
    first, *_ = await gateway.events(8)
    return int(first["occurred_at"].timestamp()) - 60


async def the_files(gateway: Gateway, engine: FakeEngine, tenant: Tenant) -> None:
    """The engine keeps the batch waiting, so that there is something to cancel."""
    engine.default = Script(first_token_delay_s=60)
    line, files = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": ASK}, []
    for _ in range(2):
        form = aiohttp.FormData({"purpose": "batch"})
        form.add_field("file", json.dumps(line).encode(), filename="f.jsonl")
        files.append((await ask(gateway, tenant.key, "POST", "/v1/files", data=form))["id"])
    file, unread = files
    wanted = {"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    batch = (await ask(gateway, tenant.key, "POST", "/v1/batches", wanted))["id"]
    for method, path in (
        ("GET", "/v1/batches"),
        ("GET", f"/v1/batches/{batch}"),
        ("GET", "/v1/files"),
        ("GET", f"/v1/files/{file}"),
        ("GET", f"/v1/files/{file}/content"),
        ("POST", f"/v1/batches/{batch}/cancel"),
        ("DELETE", f"/v1/files/{unread}"),
    ):
        await ask(gateway, tenant.key, method, path)


async def the_people(gateway: Gateway) -> None:
    """As a browser, which compares too."""
    ann = await invited(gateway)
    invite = await ann.json("POST", "/invites", {"email": "bob@example.com", "role": "viewer"})
    link = (await ann.json("POST", f"/invites/{invite['id']}/link"))["accept_url"]
    await ann.json("POST", "/invitations/lookup", {"token": link.partition("#")[2]})
    await ann.json("GET", "/me")
    await ann.json("GET", "/overview")
    await ann.json("GET", "/search?q=tenant")
    await ann.json("GET", "/sessions/methods")
    provider = {"issuer": "https://p.example", "client_id": "c", "origin": "https://c.example"}
    await ann.json("POST", "/identity_provider", provider)
    await ann.json("GET", "/identity_provider")
    await ann.json("DELETE", "/identity_provider")
    await ann.json(
        "POST", "/me/password", {"current_password": PASSWORD, "new_password": "another long password"}
    )
    other = await Browser(gateway).login("ann@example.com", "another long password")
    await ann.json("GET", "/sessions")
    await ann.json("DELETE", f"/sessions/{other['id']}")
    await ann.json("POST", "/sessions/refresh")
    await ann.json("POST", "/sessions/logout_everywhere")
    await ann.json("POST", "/sessions/logout")


async def the_pools(gateway: Gateway, engine: FakeEngine) -> None:
    spec = {"kind": "external", "model": "m", "served_names": ["m"], "urls": [engine.url], "max_replicas": 2}
    pool = (await gateway.admin("POST", "/pools", {"name": "another", "spec": spec}))["id"]
    replica = await gateway.replica(pool, engine)
    await gateway.admin("GET", "/pools")
    await gateway.admin("GET", f"/replicas?pool_id={pool}")
    await gateway.admin("GET", f"/replicas/{replica}")
    route = {"served_model": "another", "pool_id": pool, "sku": SKU}
    made = (await gateway.admin("POST", "/routes", route))["id"]
    await gateway.admin("GET", "/routes")
    green = (await gateway.admin("POST", "/pools", {"name": "green", "spec": spec}))["id"]
    await gateway.replica(green, engine)
    for here, there in ((pool, green), (green, pool)):
        await gateway.admin("POST", f"/pools/{here}/switch", {"to_pool_id": there})
    for one, change in ((f"/routes/{made}", {"published": False}), (f"/pools/{pool}", {"name": "x"})):
        await gateway.admin("GET", one)
        await gateway.admin("POST", one, change)
        await gateway.admin("PATCH", one, change)
        await gateway.admin("DELETE", one)
    await gateway.admin("GET", "/prices")


async def the_projects_own(gateway: Gateway, tenant: Tenant) -> None:
    project = f"/projects/{tenant.id}"
    rotated = {"grace_s": 60, "idempotency_key": "k"}
    for _ in range(2):
        await gateway.admin("POST", f"{project}/api_keys/{tenant.key_id}/rotate", rotated)
    limits = await gateway.admin("POST", f"{project}/limits", {"requests_per_min": 1000})
    await gateway.admin("GET", f"{project}/limits")
    await gateway.admin("DELETE", f"{project}/limits/{limits['id']}")
    for path, body in (("idempotency", {"enabled": True}), ("outage_allowance", {"amount_nanousd": 5})):
        await gateway.admin("POST", f"{project}/{path}", body)
        await gateway.admin("GET", f"{project}/{path}")
    projects = [{"id": tenant.id, "role": "member"}]
    invited = {"email": "i@example.com", "role": "reader", "projects": projects}
    invite = await gateway.admin("POST", "/invites", invited)
    await gateway.admin("POST", f"/invites/{invite['id']}/accept", {"name": "I"})


async def the_money(gateway: Gateway, tenant: Tenant) -> None:
    monthly = {"project_id": tenant.id, "period": "monthly", "limit_nanousd": PLENTY}
    budget = (await gateway.admin("POST", "/budgets", monthly))["id"]
    prepaid = (await gateway.admin("POST", "/budgets", monthly | {"period": "prepaid", "limit_nanousd": 0}))[
        "id"
    ]
    one = f"/budgets/{budget}"
    alert = (
        await gateway.admin("POST", f"{one}/alerts", {"threshold_percent": 80, "recipients": ["a@x.org"]})
    )["id"]
    for path in ("/budgets", one, f"{one}/periods", f"{one}/alerts", f"{one}/alerts/{alert}"):
        await gateway.admin("GET", path)
    await gateway.admin("POST", f"{one}/alerts/{alert}", {"threshold_nanousd": 7})
    await gateway.admin("DELETE", f"{one}/alerts/{alert}")
    await gateway.admin("POST", one, {"is_hard": False})
    reason = {"reason": "because", "amount_nanousd": 5}
    await gateway.admin("POST", "/credits", {**reason, "budget_id": prepaid, "idempotency_key": "c1"})
    await gateway.admin("POST", "/credits", {**reason, "project_id": tenant.id, "idempotency_key": "c2"})
    request_id = (await gateway.admin("GET", "/requests"))["data"][0]["id"]
    about = {"project_id": tenant.id, "corrects": request_id}
    await gateway.admin("POST", "/adjustments", {**reason, **about, "idempotency_key": "a1"})
    for path in ("/credits", "/credits/c1", "/credits/c2", "/adjustments", "/adjustments/a1"):
        await gateway.admin("GET", path)
    for path in (one, f"/budgets/{prepaid}"):
        await gateway.admin("DELETE", path)
    await gateway.sql(
        "INSERT INTO alert_record VALUES ('alert_1', 'budget.exhausted', $1, '{\"a\": 1}', now())", tenant.id
    )
    await gateway.sql(
        "INSERT INTO delivery (id, record_id, channel, target_key, target, attempts, delivered_at)"
        " VALUES ('del_1', 'alert_1', 'email', 'a@x.org', '{}', 1, now())"
    )
    await gateway.admin("GET", "/alerts")
    await gateway.admin("GET", "/alerts/alert_1")


async def the_usage(gateway: Gateway, start: int) -> None:
    async with gateway.app.database.transaction() as connection:
        await fold_usage(connection, 100)
    groups = "&".join(f"group_by={name}" for name in ("project_id", "api_key_id", "user_id"))
    for path in (
        f"/usage/completions?start_time={start}&{groups}",
        f"/usage/embeddings?start_time={start}&{groups}",
        f"/costs?start_time={start}&{groups}&group_by=line_item",
        f"/usage/breakdown?start_time={start}&group_by=class&compare_start_time=0",
        "/usage/usual",
        "/requests",
        "/usage_events",
    ):
        await gateway.admin("GET", path)
    request_id = (await gateway.admin("GET", "/requests"))["data"][0]["id"]
    shown = await gateway.admin("GET", f"/requests/{request_id}")
    assert shown["prices"]
    assert shown["attempts"]


async def the_webhooks(gateway: Gateway, tenant: Tenant) -> None:
    scopes = {"name": "hooks", "scopes": ["webhooks.write"]}
    key = (await gateway.admin("POST", f"/projects/{tenant.id}/api_keys", scopes))["value"]
    await gateway.refresh()
    async with serve_receiver() as receiver:
        whole, its = "/v1/organization", f"/v1/organization/projects/{tenant.id}"
        for prefix, caller in (("/v1", key), (whole, gateway.admin_key), (its, gateway.admin_key)):
            hooks = f"{prefix}/webhook_endpoints"
            body = {"name": "n", "url": receiver.url, "event_types": ["batch.failed"]}
            one = f"{hooks}/{(await ask(gateway, caller, 'POST', hooks, body))['id']}"
            await ask(gateway, caller, "GET", hooks)
            await ask(gateway, caller, "GET", one)
            await ask(gateway, caller, "POST", one, {"name": "m"})
            await ask(gateway, caller, "POST", f"{one}/rotate_secret", {})
            await ask(gateway, caller, "POST", f"{one}/test", {"event_type": "batch.failed"})
            await ask(gateway, caller, "GET", f"{prefix}/webhook_event_types")
            if caller != key:
                await the_deliveries(gateway, one.removeprefix(whole))
            await ask(gateway, caller, "DELETE", one)


async def the_deliveries(gateway: Gateway, one: str) -> None:
    endpoint_id = one.rpartition("/")[2]
    event, sent = f"alert_of_{endpoint_id}", f"delivery_to_{endpoint_id}"
    await gateway.sql("INSERT INTO alert_record VALUES ($1, 'batch.failed', NULL, '{}', now())", event)
    await gateway.sql(
        "INSERT INTO delivery (id, record_id, channel, target_key, target, attempts, next_attempt_at, last_error)"
        " VALUES ($1, $2, 'webhook', $3, '{}', 1, NULL, '500')",
        sent,
        event,
        endpoint_id,
    )
    await gateway.sql("INSERT INTO delivery_attempt VALUES ($1, 1, now(), 7, 500, '500', 'no')", sent)
    await gateway.admin("GET", f"{one}/deliveries")
    shown = await gateway.admin("GET", f"{one}/deliveries/{sent}")
    assert shown["log"]
    await gateway.admin("POST", f"{one}/deliveries/{sent}/replay")
    await gateway.admin("POST", f"{one}/enable")


async def the_exports(gateway: Gateway, tenant: Tenant) -> None:
    export = (await gateway.admin("POST", "/exports", {"format": "csv", **DAYS}))["id"]
    await work(gateway)
    await gateway.admin("GET", "/exports")
    await gateway.admin("GET", f"/exports/{export}")
    await ask(gateway, gateway.admin_key, "GET", f"/v1/organization/exports/{export}/files/manifest.json")
    customer = {"project_id": tenant.id, "stripe_customer_id": "cus_1"}
    await gateway.admin("POST", "/stripe_customers", customer)
    await gateway.admin("GET", "/stripe_customers")
    await gateway.sql(
        "INSERT INTO meter_event (identifier, run_id, tenant_id, customer_id, event_name, happened_at, amount_nanousd,"
        " status) VALUES ('e1', $1, $2, 'cus_1', 'tollway_nanousd', '2026-01-10Z', 5, 'pending')",
        export,
        tenant.id,
    )
    await gateway.admin("GET", "/meter_events")
    await gateway.admin("GET", "/openapi.json")
