"""Endpoints as their owners change them: what is refused, what is audited, and what no answer or row shows."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.alerts.repository.endpoints import EVERYBODY, OPERATOR, Owner
from gateway.alerts.webhooks.service import ENDPOINTS_MAX, Unreachable
from gateway.alerts.webhooks.types import Change
from gateway.errors import Conflict, GatewayError, InvalidValue, NotFound
from gateway.ids import TenantId
from tests.gateway.alerts.webhooks.conftest import ACTOR, DUE_S, TENANT, Hooks
from tests.gateway.alerts.webhooks.receiver import Receiver, serve_receiver

URL = "https://hooks.example.com/a/secret/path"
MINE = Owner(TENANT)
KEY = "0123456789abcdef0123456789abcdef"


async def update(hooks: Hooks, endpoint_id: str, owner: Owner = MINE, **changes: Any) -> Any:
    async with hooks.parts.database.write() as session:
        return await hooks.service.update(session, ACTOR, owner, endpoint_id, Change(**changes))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"url": "https://10.0.0.1/"}, "url"),
        ({"types": ("ledger.drift",)}, "event_types"),
        ({"types": ("no.such",), "tenant_id": None}, "event_types"),
        ({"format": "pagerduty"}, "routing_key"),
        ({"routing_key": KEY}, "routing_key"),
        ({"format": "pagerduty", "routing_key": "short"}, "routing_key"),
    ],
)
async def test_what_is_refused(hooks: Hooks, fields: dict[str, Any], param: str) -> None:
    types, url = fields.pop("types", ()), fields.pop("url", URL)
    with pytest.raises(InvalidValue) as caught:
        await hooks.add(url, *types, **fields)
    assert caught.value.param == param
    assert await hooks.books.count("webhook_endpoint") == await hooks.books.count("audit_log") == 0


async def test_changes_are_audited_without_secrets(hooks: Hooks) -> None:
    endpoint, secret = await hooks.add(URL, "budget.exhausted", "budget.exhausted")
    assert endpoint.event_types == ("budget.exhausted",)
    same = await update(hooks, endpoint.id, name="hook")
    assert same.updated_at == endpoint.updated_at
    changed = await update(hooks, endpoint.id, name="new", event_types=("key.expiring",), url=URL + "?x")
    assert changed.updated_at > endpoint.updated_at
    with pytest.raises(InvalidValue, match=r"ledger\.drift"):
        await update(hooks, endpoint.id, EVERYBODY, event_types=("ledger.drift",))
    with pytest.raises(InvalidValue, match="routing key"):
        await update(hooks, endpoint.id, routing_key=KEY)
    async with hooks.parts.database.write() as session:
        _, fresh = await hooks.service.rotate(session, ACTOR, MINE, endpoint.id, keeps_old=False)
        await hooks.service.delete(session, ACTOR, MINE, endpoint.id)
    rows = await hooks.books.rows("SELECT action, tenant_id, details::text FROM audit_log ORDER BY id")
    verbs = [row[0].removeprefix("webhook_endpoint.") for row in rows]
    assert verbs == ["created", "updated", "secret_rotated", "deleted"]
    assert {row[1] for row in rows} == {TENANT}
    log = " ".join(row[2] for row in rows)
    assert "hooks.example.com" in log
    for hidden in (secret, fresh, "secret/path"):
        assert hidden not in log


async def test_another_tenants_endpoint_is_nobodys(hooks: Hooks) -> None:
    endpoint, _ = await hooks.add(URL)
    others = Owner(TenantId("proj_b"))
    for owner in (others, OPERATOR):
        with pytest.raises(NotFound):
            await update(hooks, endpoint.id, owner, name="x")
        with pytest.raises(NotFound):
            await hooks.service.test(owner, endpoint.id, "budget.exhausted")
        async with hooks.parts.database.write() as session:
            for act in (
                hooks.service.rotate(session, ACTOR, owner, endpoint.id, keeps_old=False),
                hooks.service.delete(session, ACTOR, owner, endpoint.id),
                hooks.service.enable(session, ACTOR, owner, endpoint.id),
                hooks.service.replay(session, ACTOR, owner, endpoint.id, "d"),
            ):
                with pytest.raises(NotFound):
                    await act
    assert await hooks.books.count("webhook_endpoint") == 1


async def test_there_is_an_end_to_endpoints(hooks: Hooks) -> None:
    for _ in range(ENDPOINTS_MAX):
        await hooks.add(URL)
    with pytest.raises(Conflict, match="too many"):
        await hooks.add(URL)
    assert (await hooks.add(URL, tenant_id=None))[0].tenant_id is None, "the operator's are counted apart"


async def test_pagerdutys_key_is_sealed_and_its_address_known(hooks: Hooks) -> None:
    endpoint, _ = await hooks.add("", tenant_id=None, format="pagerduty", routing_key=KEY)
    assert endpoint.url == "https://events.pagerduty.com/v2/enqueue"
    changed = await update(hooks, endpoint.id, OPERATOR, routing_key=KEY[::-1])
    secrets = hooks.parts.vault.open(changed)
    assert secrets is not None
    assert secrets.routing_key == KEY[::-1]
    everything = await hooks.books.rows("SELECT w::text FROM webhook_endpoint w")
    assert KEY not in str(everything)
    assert KEY[::-1] not in str(everything)


async def test_a_test_is_sent_at_once_and_says_what_was_answered(hooks: Hooks) -> None:
    async with serve_receiver(Receiver([418])) as receiver:
        endpoint, _ = await hooks.add(receiver.url)
        answer = await hooks.service.test(MINE, endpoint.id, "budget.exhausted")
    assert answer.status == 418
    assert b'"test":true' in receiver.taken[0].body
    with pytest.raises(Unreachable) as caught:
        await hooks.service.test(MINE, endpoint.id, "budget.exhausted")
    assert (caught.value.status, caught.value.code) == (400, "webhook_endpoint_unreachable")
    with pytest.raises(InvalidValue):
        await hooks.service.test(MINE, endpoint.id, "ledger.drift")
    assert await hooks.books.count("delivery") == 0


async def test_one_test_of_an_endpoint_at_a_time(hooks: Hooks) -> None:
    async with serve_receiver(Receiver(gate=asyncio.Event())) as receiver:
        endpoint, _ = await hooks.add(receiver.url)
        first = asyncio.create_task(hooks.service.test(MINE, endpoint.id, "budget.exhausted"))
        async with asyncio.timeout(30):
            while not receiver.taken:  # noqa: ASYNC110  (the far side)
                await asyncio.sleep(0.01)
        with pytest.raises(Conflict):
            await hooks.service.test(MINE, endpoint.id, "budget.exhausted")
        assert receiver.gate is not None
        receiver.gate.set()
        assert (await first).status == 200


async def test_replay_and_enable(hooks: Hooks) -> None:
    """A disabled endpoint is enabled, what it missed is sent again from the start of the schedule, under the same id."""

    async def replay(delivery_id: str) -> None:
        async with hooks.parts.database.write() as session:
            await hooks.service.replay(session, ACTOR, MINE, endpoint.id, delivery_id)

    async with serve_receiver(Receiver([410, 500, 200])) as receiver:
        endpoint, _ = await hooks.add(receiver.url)
        await hooks.tell("e")
        await hooks.courier.run_once()
        [(delivery_id,)] = await hooks.books.rows("SELECT id FROM delivery")
        with pytest.raises(Conflict, match="disabled"):
            await replay(delivery_id)
        async with hooks.parts.database.write() as session:
            enabled = await hooks.service.enable(session, ACTOR, MINE, endpoint.id)
        assert (enabled.disabled_at, enabled.updated_at) == (None, endpoint.updated_at)
        await replay(delivery_id)
        with pytest.raises(Conflict, match="on its way"):
            await replay(delivery_id)
        with pytest.raises(NotFound):
            await replay("delivery_none")
        await hooks.courier.run_once()
        due_s = await hooks.books.value(f"SELECT {DUE_S} FROM delivery d")
        assert due_s == 5, "the first step of the schedule"
        await hooks.make_due()
        await hooks.courier.run_once()
        await replay(delivery_id)
        await hooks.courier.run_once()
    assert len(receiver.taken) == 4
    assert {one.id for one in receiver.taken} == {delivery_id}
    rows = await hooks.books.rows("SELECT number, status_code FROM delivery_attempt ORDER BY number")
    assert [tuple(row) for row in rows] == [(1, 410), (2, 500), (3, 200), (4, 200)]
    assert await hooks.books.value("SELECT delivered_at IS NOT NULL FROM delivery")


async def test_a_changed_endpoint_is_meant_to_work(hooks: Hooks) -> None:
    async with serve_receiver(Receiver([410, 200])) as receiver:
        endpoint, _ = await hooks.add(receiver.url)
        await hooks.tell("e")
        await hooks.courier.run_once()
        assert (await hooks.endpoint(endpoint.id))["disabled_at"] is not None
        await update(hooks, endpoint.id, name="hook")
        await hooks.tell("f")
        await hooks.courier.run_once()
    assert len(receiver.taken) == 2


async def test_a_lost_master_key_is_mended_by_a_rotation(hooks: Hooks) -> None:
    async with serve_receiver() as receiver:
        endpoint, _ = await hooks.add(receiver.url)
        await hooks.books.run("UPDATE webhook_endpoint SET secrets_sealed = '\\x00'")
        with pytest.raises(GatewayError, match="rotate it"):
            await hooks.service.test(MINE, endpoint.id, "budget.exhausted")
        async with hooks.parts.database.write() as session:
            await hooks.service.rotate(session, ACTOR, MINE, endpoint.id, keeps_old=True)
        assert (await hooks.service.test(MINE, endpoint.id, "budget.exhausted")).status == 200
    assert receiver.taken[0].headers["webhook-signature"].count("v1,") == 1
