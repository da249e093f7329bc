"""Events to real receivers: who hears of what, and what each answer leads to."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import orjson
import pytest
from aiohttp import web
from standardwebhooks import Webhook

from gateway.alerts.repository.endpoints import Owner
from gateway.alerts.webhooks.channel import WebhookChannel
from gateway.ids import TenantId
from tests.gateway.alerts.webhooks.conftest import ACTOR, DUE_S, TENANT, Hooks
from tests.gateway.alerts.webhooks.receiver import Receiver, serve_receiver


async def delivery(hooks: Hooks) -> dict[str, Any]:
    """The only one, with how many seconds after its last attempt it is due."""
    [row] = await hooks.books.rows(f"SELECT d.*, {DUE_S} AS due_s FROM delivery d")
    return dict(row._mapping)


async def test_who_hears_of_what(hooks: Hooks) -> None:
    """A tenant of its own events, the operator of everybody's and the organisation's, each of what they asked for."""
    await hooks.books.add_tenant("proj_b")
    async with serve_receiver() as mine, serve_receiver() as others, serve_receiver() as operators:
        _, secret = await hooks.add(mine.url)
        await hooks.add(others.url, tenant_id=TenantId("proj_b"))
        await hooks.add(operators.url, "budget.exhausted", "ledger.drift", tenant_id=None)
        [ours] = await hooks.tell("ours")
        await hooks.tell("not asked for", kind="key.expiring")
        await hooks.tell("drift", kind="ledger.drift", tenant_id=None)
        await hooks.tell("everybody's", tenant_id=None)
        assert await hooks.courier.run_once() == 4
    [taken] = mine.taken
    event = Webhook(secret).verify(taken.body, taken.headers)
    assert (event["id"], event["type"], event["project_id"]) == (ours, "budget.exhausted", TENANT)
    assert event["data"] == {"summary": "ours", "n": "ours"}
    assert others.taken == []
    heard = [orjson.loads(one.body) for one in operators.taken]
    assert sorted((one["data"]["n"], one["project_id"] or "") for one in heard) == [
        ("drift", ""),
        ("everybody's", ""),
        ("ours", TENANT),
    ]
    assert len({one.id for one in (*mine.taken, *operators.taken)}) == 4


@pytest.mark.parametrize("status", [200, 201, 204, 299])
async def test_every_2xx_is_taken(hooks: Hooks, status: int) -> None:
    async with serve_receiver(Receiver([status])) as receiver:
        await hooks.add(receiver.url)
        await hooks.tell("e")
        assert await hooks.courier.run_once() == 1
    row = await delivery(hooks)
    assert row["delivered_at"] is not None
    [attempt] = await hooks.books.rows("SELECT number, status_code, error FROM delivery_attempt")
    assert tuple(attempt) == (1, status, None)


@pytest.mark.parametrize("status", [302, 307, 400, 404, 500])
async def test_everything_else_is_tried_again_anew_signed_and_under_the_same_id(
    hooks: Hooks, status: int
) -> None:
    async with serve_receiver(Receiver([status, 200])) as receiver:
        endpoint, secret = await hooks.add(receiver.url)
        await hooks.tell("e")
        assert await hooks.courier.run_once() == 1
        row = await delivery(hooks)
        assert row["due_s"] == 5
        assert row["last_error"].startswith(str(status))
        now_s = int(time.time())
        async with asyncio.timeout(30):
            while int(time.time()) == now_s:  # noqa: ASYNC110  (until the stamp must differ)
                await asyncio.sleep(0.05)
        await hooks.make_due()
        assert await hooks.courier.run_once() == 1
    first, second = receiver.taken
    assert first.id == second.id
    assert first.body == second.body
    for header in ("webhook-timestamp", "webhook-signature"):
        assert first.headers[header] != second.headers[header]
    assert Webhook(secret).verify(second.body, second.headers)
    attempts = await hooks.books.rows("SELECT number, status_code FROM delivery_attempt ORDER BY number")
    assert [tuple(row) for row in attempts] == [(1, status), (2, 200)]
    assert (await hooks.endpoint(endpoint.id))["disabled_at"] is None


async def test_410_disables_at_once_and_somebody_else_is_told(hooks: Hooks) -> None:
    async with serve_receiver(Receiver([410])) as gone, serve_receiver() as operators:
        endpoint, _ = await hooks.add(gone.url)
        await hooks.add(operators.url, "webhook_endpoint.disabled", tenant_id=None)
        await hooks.tell("e")
        assert await hooks.courier.run_once() == 2
        await hooks.tell("later")
        assert await hooks.courier.run_once() == 0, "nobody listens"
    assert (await hooks.endpoint(endpoint.id))["disabled_reason"] == "gone"
    [told] = operators.taken
    event = orjson.loads(told.body)
    assert event["type"] == "webhook_endpoint.disabled"
    assert event["data"]["webhook_endpoint_id"] == endpoint.id
    assert event["data"]["reason"] == "gone"
    assert len(gone.taken) == 1


async def test_a_whole_schedule_without_success_disables(hooks: Hooks) -> None:
    async with serve_receiver(Receiver([500])) as broken, serve_receiver() as operators:
        endpoint, _ = await hooks.add(broken.url)
        await hooks.add(operators.url, "webhook_endpoint.disabled", tenant_id=None)
        await hooks.tell("e")
        for attempt in range(1, 11):
            assert (await hooks.endpoint(endpoint.id))["disabled_at"] is None, attempt
            await hooks.courier.run_once()
            await hooks.make_due()
        await hooks.courier.run_once()
    assert len(broken.taken) == 10
    assert len({one.id for one in broken.taken}) == 1
    assert (await hooks.endpoint(endpoint.id))["disabled_reason"] == "failing"
    [told] = operators.taken
    assert "500" in orjson.loads(told.body)["data"]["last_error"]


@pytest.mark.parametrize(("status", "header", "least"), [(429, "120", 120), (503, "60", 60), (503, None, 5)])
async def test_429_and_503_slow_the_whole_endpoint_down(
    hooks: Hooks, status: int, header: str | None, least: int
) -> None:
    busy = web.Response(status=status, headers={"retry-after": header} if header else {})
    async with serve_receiver(Receiver([busy, 200])) as receiver:
        endpoint, _ = await hooks.add(receiver.url)
        await hooks.tell("first")
        assert await hooks.courier.run_once() == 1
        assert (await delivery(hooks))["due_s"] == least
        assert (await hooks.endpoint(endpoint.id))["paused_until"] is not None
        await hooks.books.run("UPDATE webhook_endpoint SET paused_until = paused_until + interval '1 hour'")
        await hooks.tell("second")
        await hooks.make_due()
        await hooks.courier.run_once()
        assert len(receiver.taken) == 1, "neither the same nor another one before its time"
        rows = await hooks.books.rows("SELECT attempts, next_attempt_at > now() FROM delivery ORDER BY id")
        assert [tuple(row) for row in rows] == [(1, True), (0, True)], "waiting counts as no attempt"
        await hooks.books.run("UPDATE webhook_endpoint SET paused_until = now()")
        await hooks.make_due()
        await hooks.courier.run_once()
    assert len(receiver.taken) == 3
    assert (await hooks.endpoint(endpoint.id))["disabled_at"] is None


async def test_a_rotated_secret(hooks: Hooks) -> None:
    async with serve_receiver() as receiver:
        endpoint, first = await hooks.add(receiver.url)
        for keeps_old in (True, False):
            async with hooks.parts.database.write() as session:
                _, second = await hooks.service.rotate(
                    session, ACTOR, Owner(TENANT), endpoint.id, keeps_old=keeps_old
                )
            await hooks.tell(f"kept {keeps_old}")
            assert await hooks.courier.run_once() == 1
            taken = receiver.taken[-1]
            assert taken.headers["webhook-signature"].count("v1,") == (2 if keeps_old else 1)
            assert Webhook(second).verify(taken.body, taken.headers)
            if keeps_old:
                assert Webhook(first).verify(taken.body, taken.headers)


async def test_one_slow_endpoint_delays_no_other(hooks: Hooks) -> None:
    """It holds two messages and has two hundred waiting; the others' are all brought, what comes later too."""
    slow = Receiver(gate=asyncio.Event())
    async with serve_receiver(slow), serve_receiver() as quick:
        await hooks.add(slow.url, "budget.exhausted")
        await hooks.tell(*(f"slow {number}" for number in range(200)))
        running = asyncio.create_task(hooks.courier.run_once())
        async with asyncio.timeout(120):
            while len(slow.taken) < WebhookChannel.per_target_max:  # noqa: ASYNC110  (the far side)
                await asyncio.sleep(0.02)
            await hooks.add(quick.url, "key.expiring")
            for number in range(5):
                await hooks.tell(*(f"quick {number} {part}" for part in range(20)), kind="key.expiring")
                while len(quick.taken) < 20 * (number + 1):  # noqa: ASYNC110  (the far side)
                    await asyncio.sleep(0.02)
        assert not running.done()
        assert len(slow.taken) == WebhookChannel.per_target_max, "and it has no more than its share"
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert len({one.id for one in quick.taken}) == len(quick.taken) == 100


async def test_secrets_that_cannot_be_opened_and_endpoints_that_are_gone(hooks: Hooks) -> None:
    async with serve_receiver() as receiver:
        endpoint, _ = await hooks.add(receiver.url)
        await hooks.tell("e")
        await hooks.books.run("UPDATE webhook_endpoint SET secrets_sealed = '\\x00'")
        await hooks.courier.run_once()
        assert "rotate it" in (await delivery(hooks))["last_error"]
        await hooks.books.run("DELETE FROM webhook_endpoint WHERE id = :id", id=endpoint.id)
        await hooks.make_due()
        await hooks.courier.run_once()
    row = await delivery(hooks)
    assert (row["next_attempt_at"], row["last_error"]) == (None, "there is no endpoint")
    assert receiver.taken == []
