"""OpenAI's spend limits with the stock client, strictly validated: views on monthly hard budgets."""

from __future__ import annotations

import asyncio

import openai
import pytest

from tests.fakes.engine import FakeEngine
from tests.gateway.http.admin.clients import admin_client, client_of_empty_answers
from tests.harness import SERVED, Gateway, Tenant

ASK = {"model": SERVED, "messages": [{"role": "user", "content": "hi"}]}
CENT = 10_000_000


async def asked(gateway: Gateway, tenant: Tenant) -> int:
    return (await gateway.request("POST", "/v1/chat/completions", ASK, tenant.key)).status


async def test_a_projects_spend_limit(gateway: Gateway, engine: FakeEngine) -> None:
    limits = admin_client(gateway).admin.organization.projects.spend_limit
    tenant, other = await gateway.serve(engine), await gateway.tenant("other")
    with pytest.raises(openai.NotFoundError):
        await limits.retrieve(tenant.id)
    made = await limits.update(tenant.id, currency="USD", interval="month", threshold_amount=250)
    assert (made.object, made.currency, made.interval) == ("project.spend_limit", "USD", "month")
    assert (made.threshold_amount, made.enforcement.status) == (250, "inactive")
    assert await limits.retrieve(tenant.id) == made
    [budget] = (await gateway.admin("GET", f"/budgets?project_id={tenant.id}"))["data"]
    assert (budget["limit_nanousd"], budget["period"], budget["is_hard"]) == (250 * CENT, "monthly", True)
    await gateway.refresh()
    assert await asked(gateway, tenant) == 200
    await gateway.events(1)
    lowered = await limits.update(tenant.id, currency="USD", interval="month", threshold_amount=0)
    assert lowered.enforcement.status == "enforcing"
    await gateway.refresh()
    with pytest.raises(openai.RateLimitError) as refused:
        await gateway.client(tenant).chat.completions.create(**ASK)  # type: ignore[call-overload]  # a plain dict
    assert refused.value.code == "project_spend_limit_exceeded"
    assert await asked(gateway, other) == 200
    gone = await limits.delete(tenant.id)
    assert (gone.object, gone.deleted) == ("project.spend_limit.deleted", True)
    for call in (limits.retrieve, limits.delete):
        with pytest.raises(openai.NotFoundError):
            await call(tenant.id)
    await gateway.refresh()
    assert await asked(gateway, tenant) == 200


async def test_limits_set_at_once_are_one_limit(gateway: Gateway) -> None:
    """Whoever comes second changes what the first one made; nobody is told of a conflict."""
    limits = admin_client(gateway).admin.organization.projects.spend_limit
    tenant = await gateway.tenant()
    amounts = range(1, 13)
    sets = (
        limits.update(tenant.id, currency="USD", interval="month", threshold_amount=cents)
        for cents in amounts
    )
    await asyncio.gather(*sets)
    assert (await limits.retrieve(tenant.id)).threshold_amount in amounts
    assert len((await gateway.admin("GET", f"/budgets?project_id={tenant.id}"))["data"]) == 1


async def test_the_organisations_spend_limit(gateway: Gateway, engine: FakeEngine) -> None:
    limit = admin_client(gateway).admin.organization.spend_limit
    tenant = await gateway.serve(engine)
    with pytest.raises(openai.NotFoundError):
        await limit.retrieve()
    made = await limit.update(currency="USD", interval="month", threshold_amount=0)
    assert (made.object, made.currency, made.interval) == ("organization.spend_limit", "USD", "month")
    assert (made.threshold_amount, made.enforcement.status) == (0, "enforcing")
    assert await limit.retrieve() == made
    await gateway.refresh()
    with pytest.raises(openai.RateLimitError) as refused:
        await gateway.client(tenant).chat.completions.create(**ASK)  # type: ignore[call-overload]  # a plain dict
    assert refused.value.code == "organization_spend_limit_exceeded"
    gone = await limit.delete()
    assert (gone.object, gone.deleted) == ("organization.spend_limit.deleted", True)
    with pytest.raises(openai.NotFoundError):
        await limit.delete()


async def test_a_limit_enforces_before_it_is_reached_to_the_last_nano_usd(
    gateway: Gateway, engine: FakeEngine
) -> None:
    limits = admin_client(gateway).admin.organization.projects.spend_limit
    tenant = await gateway.serve(engine)
    await limits.update(tenant.id, currency="USD", interval="month", threshold_amount=10)
    await gateway.sql("UPDATE budget_period SET spent_nanousd = $1", 10 * CENT - 1)
    assert (await limits.retrieve(tenant.id)).enforcement.status == "inactive"
    await gateway.refresh()
    assert await asked(gateway, tenant) == 429
    async with asyncio.timeout(60):  # the next heartbeat tells it
        while (await limits.retrieve(tenant.id)).enforcement.status != "enforcing":  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    raised = await limits.update(tenant.id, currency="USD", interval="month", threshold_amount=11)
    assert raised.enforcement.status == "inactive"
    [budget] = (await gateway.admin("GET", f"/budgets?project_id={tenant.id}"))["data"]
    assert budget["current_period"]["is_exhausted"] is False


async def test_it_is_a_view_on_the_monthly_hard_budget_and_no_other(gateway: Gateway) -> None:
    limits = admin_client(gateway).admin.organization.projects.spend_limit
    tenant = await gateway.tenant()
    body = {"project_id": tenant.id, "limit_nanousd": 3 * CENT - 1, "is_hard": False}
    await gateway.admin("POST", "/budgets", body | {"period": "daily", "is_hard": True})
    soft = await gateway.admin("POST", "/budgets", body | {"period": "monthly", "zone": "Europe/Berlin"})
    with pytest.raises(openai.NotFoundError):
        await limits.retrieve(tenant.id)
    with pytest.raises(openai.NotFoundError):
        await limits.delete(tenant.id)
    await gateway.admin("POST", f"/budgets/{soft['id']}", {"is_hard": True})
    assert (await limits.retrieve(tenant.id)).threshold_amount == 2, "parts of a cent are not shown"
    await gateway.admin("POST", f"/budgets/{soft['id']}", {"is_hard": False})
    await limits.update(tenant.id, currency="USD", interval="month", threshold_amount=7)
    now = await gateway.admin("GET", f"/budgets/{soft['id']}")
    assert (now["limit_nanousd"], now["is_hard"], now["zone"]) == (7 * CENT, True, "Europe/Berlin")
    changes = await gateway.sql(
        "SELECT details #>> '{after,limit_nanousd}' AS after FROM audit_log WHERE action = 'budget.updated'"
        " AND resource_id = $1 ORDER BY id DESC LIMIT 1",
        soft["id"],
    )
    assert changes == [{"after": str(7 * CENT)}]


async def test_what_it_refuses(gateway: Gateway) -> None:
    limits = admin_client(gateway).admin.organization.projects.spend_limit
    tenant = await gateway.tenant()
    with pytest.raises(openai.NotFoundError):
        await limits.update("proj_none", currency="USD", interval="month", threshold_amount=1)
    wrong = [
        ({"currency": "EUR"}, "currency"),
        ({"interval": "week"}, "interval"),
        ({"threshold_amount": -1}, "threshold_amount"),
        ({"threshold_amount": 1 << 60}, "threshold_amount"),
        ({"extra_body": {"is_hard": False}}, "is_hard"),
    ]
    for change, param in wrong:
        good = {"currency": "USD", "interval": "month", "threshold_amount": 1}
        with pytest.raises(openai.BadRequestError) as refused:
            await limits.update(tenant.id, **(good | change))  # type: ignore[arg-type]  # wrong on purpose
        assert refused.value.param == param
    plain = admin_client(gateway, tenant.key)
    with pytest.raises(openai.PermissionDeniedError):
        await plain.admin.organization.spend_limit.retrieve()


async def test_an_empty_answer_is_no_spend_limit() -> None:
    async with client_of_empty_answers() as client:
        organization = client.admin.organization
        for call in (
            organization.spend_limit.retrieve(),
            organization.spend_limit.delete(),
            organization.spend_limit.update(currency="USD", interval="month", threshold_amount=1),
            organization.projects.spend_limit.retrieve("p"),
            organization.projects.spend_limit.delete("p"),
        ):
            with pytest.raises(openai.APIResponseValidationError):
                await call
