"""A budget's own alerts, and how one fires: from the request that crosses it to the letter, and into the list."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.alerts.courier import Courier
from gateway.alerts.mail import MailChannel
from gateway.alerts.spend import SpendWatch
from gateway.clock import SystemClock
from gateway.db import Database
from gateway.ids import IdSource
from gateway.obs.metrics import Metrics
from gateway.settings import MailSettings
from tests.fakes.engine import FakeEngine
from tests.gateway.alerts.mailserver import Mailbox, serve_mail
from tests.harness import SERVED, Gateway

ASK = {"model": SERVED, "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = Database(database_url, name="test", pool_size=2)
    yield opened
    await opened.close()


async def budget_of(gateway: Gateway, project_id: str, limit: int) -> str:
    body = {"project_id": project_id, "period": "monthly", "limit_nanousd": limit, "is_hard": False}
    return str((await gateway.admin("POST", "/budgets", body))["id"])


async def test_the_life_of_a_budgets_alert(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    budget_id = await budget_of(gateway, tenant.id, 100)
    path = f"/budgets/{budget_id}/alerts"
    made = await gateway.admin("POST", path, {"threshold_percent": 80, "recipients": ["a@x.org"]})
    assert (made["threshold_percent"], made["threshold_nanousd"]) == (80, None)
    one = f"{path}/{made['id']}"
    assert await gateway.admin("GET", one) == made
    changed = await gateway.admin("POST", one, {"threshold_nanousd": 7})
    assert (changed["threshold_percent"], changed["threshold_nanousd"], changed["recipients"]) == (
        None,
        7,
        [],
    )
    for _ in range(6):
        await gateway.admin("POST", path, {"threshold_percent": 5})
    first = await gateway.admin("GET", f"{path}?limit=3")
    rest = await gateway.admin("GET", f"{path}?after={first['last_id']}")
    assert (first["has_more"], len(first["data"]), len(rest["data"])) == (True, 3, 4)
    assert rest["data"][-1] == changed
    assert (await gateway.admin("DELETE", one))["deleted"]
    for wrong in ({}, {"threshold_percent": 5, "threshold_nanousd": 5}, {"threshold_percent": 0}):
        await gateway.admin("POST", path, wrong, 400)
    other = await budget_of(gateway, (await gateway.tenant("b")).id, 1)
    await gateway.admin("GET", f"/budgets/{other}/alerts/{rest['data'][0]['id']}", status=404)
    await gateway.admin("POST", "/budgets/none/alerts", {"threshold_percent": 5}, 404)
    await gateway.admin("GET", one, status=404)
    await gateway.admin("DELETE", f"/budgets/{budget_id}")
    assert await gateway.sql("SELECT id FROM spend_alert") == [], "a budget takes its alerts with it"


async def test_every_call_about_money_is_in_the_openapi_file(gateway: Gateway) -> None:
    document = await gateway.admin("GET", "/openapi.json")
    calls = {
        f"{method} {path.removeprefix('/v1/organization')}"
        for path, methods in document["paths"].items()
        for method in methods
    }
    for resource, prefix in (
        ("spend_alerts", ""),
        ("spend_alerts", "/projects/{project_id}"),
        ("alerts", "/budgets/{budget_id}"),
    ):
        one = f"{prefix}/{resource}/{{alert_id}}"
        assert {f"post {prefix}/{resource}", f"get {one}", f"post {one}", f"delete {one}"} <= calls
    for prefix in ("", "/projects/{project_id}"):
        assert {f"{method} {prefix}/spend_limit" for method in ("get", "post", "delete")} <= calls
    listed = document["paths"]["/v1/organization/projects/{project_id}/spend_alerts"]["get"]["parameters"]
    assert [one["name"] for one in listed] == ["project_id", "limit", "after", "before", "order"]


async def test_from_the_request_to_the_letter(
    gateway: Gateway, engine: FakeEngine, database: Database
) -> None:
    tenant = await gateway.serve(engine)
    assert (await gateway.request("POST", "/v1/chat/completions", ASK, tenant.key)).status == 200
    [event] = await gateway.events(1)
    cost = event["amount_nanousd"]
    budget_id = await budget_of(gateway, tenant.id, 2 * cost)
    alert: dict[str, Any] = {"threshold_percent": 100, "recipients": ["a@x.org"], "subject_prefix": "[x]"}
    made = await gateway.admin("POST", f"/budgets/{budget_id}/alerts", alert)
    await gateway.refresh()
    clock, metrics, mailbox = SystemClock(), Metrics(), Mailbox()
    watch = SpendWatch(database, clock=clock, ids=IdSource(clock), metrics=metrics)
    assert await watch.run_once() == 0
    assert (await gateway.request("POST", "/v1/chat/completions", ASK, tenant.key)).status == 200
    await gateway.events(2)
    assert await watch.run_once() == 2
    async with serve_mail(mailbox) as port:
        mail = MailChannel(MailSettings(host="127.0.0.1", port=port, tls="none"))
        courier = Courier(
            database, [mail], clock=clock, ids=IdSource(), draw=lambda bound: 0, metrics=metrics
        )
        assert await courier.run_once() == 2
    subjects = {mail["Subject"] for _, mail in mailbox.taken}
    assert f"Budget used up: project {tenant.id}" in subjects
    assert any(subject.startswith(f"[x] Spend of project {tenant.id} reached") for subject in subjects)
    fired = (await gateway.admin("GET", f"/alerts?project_id={tenant.id}"))["data"]
    assert {row["type"] for row in fired} == {"budget.threshold_reached", "budget.exhausted"}
    [reached] = (await gateway.admin("GET", "/alerts?type=budget.threshold_reached"))["data"]
    assert reached["data"]["alert_id"] == made["id"]
    assert reached["data"]["spent_nanousd"] == reached["data"]["threshold_nanousd"] == 2 * cost
    assert "a@x.org" not in str(fired), "who is told is nobody else's business"
    shown = await gateway.admin("GET", f"/alerts/{reached['id']}")
    [delivery] = shown["deliveries"]
    assert (delivery["channel"], delivery["target"], delivery["attempts"]) == ("email", "a@x.org", 1)
    assert delivery["delivered_at"] is not None
    page = await gateway.admin("GET", "/alerts?limit=1")
    assert page["has_more"]
    assert len((await gateway.admin("GET", f"/alerts?after={page['last_id']}"))["data"]) == 1
    await gateway.admin("GET", "/alerts/none", status=404)
