"""OpenAI's spend alerts with the stock client, strictly validated, for a project and for the organisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import openai
import pytest

from tests.gateway.http.admin.clients import admin_client, client_of_empty_answers
from tests.harness import Gateway

CHANNEL: Any = {
    "type": "email",
    "recipients": ["ops@example.com", "cfo@example.com"],
    "subject_prefix": "[bill]",
}
PLAIN: Any = {"type": "email", "recipients": ["ops@example.com"]}


@dataclass(frozen=True)
class Alerts:
    """One of the two resources, which differ by where they are and by nothing else."""

    name: str
    calls: Any
    project: dict[str, str]

    async def create(self, amount: int, channel: Any = CHANNEL) -> Any:
        return await self.calls.create(
            *self.project.values(),
            currency="USD",
            interval="month",
            threshold_amount=amount,
            notification_channel=channel,
        )

    async def update(self, alert_id: str, amount: int, channel: Any = CHANNEL) -> Any:
        return await self.calls.update(
            alert_id,
            **self.project,
            currency="USD",
            interval="month",
            threshold_amount=amount,
            notification_channel=channel,
        )

    def list(self, **query: Any) -> Any:
        return self.calls.list(*self.project.values(), **query)


@pytest.fixture(params=["organization", "project"])
async def alerts(request: pytest.FixtureRequest, gateway: Gateway) -> Alerts:
    organization = admin_client(gateway).admin.organization
    if request.param == "organization":
        return Alerts("organization", organization.spend_alerts, {})
    project = (await organization.projects.create(name="p")).id
    return Alerts("project", organization.projects.spend_alerts, {"project_id": project})


async def test_the_life_of_an_alert(gateway: Gateway, alerts: Alerts) -> None:
    made = await alerts.create(1234)
    assert (made.object, made.currency, made.interval) == (f"{alerts.name}.spend_alert", "USD", "month")
    assert made.threshold_amount == 1234
    channel = made.notification_channel
    assert (channel.type, channel.subject_prefix) == ("email", "[bill]")
    assert channel.recipients == ["ops@example.com", "cfo@example.com"]
    assert await alerts.calls.retrieve(made.id, **alerts.project) == made
    changed = await alerts.update(made.id, 99, PLAIN)
    assert (changed.id, changed.threshold_amount) == (made.id, 99)
    assert changed.notification_channel.subject_prefix is None
    assert changed.notification_channel.recipients == ["ops@example.com"]
    assert [alert async for alert in alerts.list()] == [changed]
    gone = await alerts.calls.delete(made.id, **alerts.project)
    assert (gone.id, gone.object, gone.deleted) == (made.id, f"{alerts.name}.spend_alert.deleted", True)
    for call in (alerts.calls.retrieve, alerts.calls.delete):
        with pytest.raises(openai.NotFoundError):
            await call(made.id, **alerts.project)
    with pytest.raises(openai.NotFoundError):
        await alerts.update(made.id, 1)
    audit = await gateway.sql(
        "SELECT action, tenant_id, details #>> '{before,threshold_nanousd}' AS before,"
        " details #>> '{after,threshold_nanousd}' AS after FROM audit_log WHERE resource_id = $1 ORDER BY id",
        made.id,
    )
    owner = alerts.project.get("project_id")
    assert [tuple(row.values()) for row in audit] == [
        ("spend_alert.created", owner, None, "12340000000"),
        ("spend_alert.updated", owner, "12340000000", "990000000"),
        ("spend_alert.deleted", owner, "990000000", None),
    ]


async def test_pages_in_both_orders_and_back(alerts: Alerts) -> None:
    made = [(await alerts.create(number + 1)).id for number in range(8)]
    assert [alert.id async for alert in alerts.list(limit=3)] == made[::-1], "three pages, newest first"
    assert [alert.id async for alert in alerts.list(limit=3, order="asc")] == made
    first = await alerts.list(limit=3, order="asc")
    assert (first.has_more, first.last_id, len(first.data)) == (True, made[2], 3)
    second = await first.get_next_page()
    assert [alert.id for alert in second.data] == made[3:6]
    back = await alerts.list(limit=3, order="asc", before=second.data[0].id)
    assert ([alert.id for alert in back.data], back.has_more) == (made[:3], False)
    inner = await alerts.list(limit=2, order="asc", before=made[5])
    assert ([alert.id for alert in inner.data], inner.has_more) == (made[3:5], True)


async def test_what_it_refuses(alerts: Alerts) -> None:
    bad = [
        ({"recipients": []}, "notification_channel.recipients"),
        ({"recipients": ["a@x.org"] * 21}, "notification_channel.recipients"),
        ({"recipients": ["no address"]}, "notification_channel.recipients.0"),
        ({"recipients": ["a..b@x.org"]}, "notification_channel.recipients.0"),
        ({"recipients": ["a@x.org, b@x.org"]}, "notification_channel.recipients.0"),
        ({"recipients": ["a@x.org\r\nBcc: b@x.org"]}, "notification_channel.recipients.0"),
        ({"subject_prefix": "a\nBcc: b@x.org"}, "notification_channel.subject_prefix"),
        ({"type": "sms"}, "notification_channel.type"),
    ]
    for change, param in bad:
        with pytest.raises(openai.BadRequestError) as refused:
            await alerts.create(1, PLAIN | change)
        assert refused.value.param == param
    with pytest.raises(openai.BadRequestError) as refused:
        await alerts.create(0)
    assert refused.value.param == "threshold_amount"
    with pytest.raises(openai.BadRequestError):
        await alerts.list(order="up")


async def test_lists_do_not_see_each_other(gateway: Gateway) -> None:
    organization = admin_client(gateway).admin.organization
    mine, other = await gateway.tenant("mine"), await gateway.tenant("other")
    alerts = Alerts("project", organization.projects.spend_alerts, {"project_id": mine.id})
    made = await alerts.create(5)
    with pytest.raises(openai.NotFoundError):
        await alerts.calls.retrieve(made.id, project_id=other.id)
    with pytest.raises(openai.NotFoundError):
        await organization.spend_alerts.retrieve(made.id)
    assert [alert async for alert in organization.spend_alerts.list()] == []
    nowhere = Alerts("project", alerts.calls, {"project_id": "proj_none"})
    with pytest.raises(openai.NotFoundError):
        await nowhere.create(1)
    with pytest.raises(openai.NotFoundError):
        await nowhere.list()


async def test_an_empty_answer_is_no_spend_alert() -> None:
    async with client_of_empty_answers() as client:
        organization = client.admin.organization
        for alerts in (
            Alerts("organization", organization.spend_alerts, {}),
            Alerts("project", organization.projects.spend_alerts, {"project_id": "p"}),
        ):
            for call in (
                alerts.create(1),
                alerts.update("a", 1),
                alerts.calls.retrieve("a", **alerts.project),
                alerts.calls.delete("a", **alerts.project),
                alerts.list(),
            ):
                with pytest.raises(openai.APIResponseValidationError):
                    await call
