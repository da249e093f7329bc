"""`Idempotency-Key` over HTTP, with the unmodified client's own option for it."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest

from gateway.http.idempotent import REPLAYED_FROM
from tests.fakes.engine import FakeEngine
from tests.fakes.script import TOO_LONG, Script
from tests.gateway.http.answers import BODY, CHAT, MESSAGES, refused, row
from tests.harness import SERVED, Gateway, Tenant

KEYED = {"idempotency-key": "order-7"}


async def opted_in(gateway: Gateway, engine: FakeEngine) -> Tenant:
    tenant = await gateway.serve(engine)
    await gateway.admin("POST", f"/projects/{tenant.id}/idempotency", {"enabled": True})
    await gateway.refresh()
    return tenant


async def test_a_request_that_is_sent_again_gets_its_first_answer_and_is_charged_once(
    gateway: Gateway, engine: FakeEngine
) -> None:
    tenant = await opted_in(gateway, engine)
    answers = [await gateway.request("POST", CHAT, BODY, tenant.key, headers=KEYED) for _ in range(3)]
    assert [answer.status for answer in answers] == [200] * 3
    assert len({await answer.read() for answer in answers}) == 1
    [event] = await gateway.events(1)
    assert REPLAYED_FROM not in answers[0].headers
    assert {answer.headers[REPLAYED_FROM] for answer in answers[1:]} == {event["request_id"]}
    assert len({answer.headers["x-request-id"] for answer in answers}) == 3
    assert len(engine.requests) == 1
    error = await refused(gateway, "POST", CHAT, {**BODY, "seed": 1}, key=tenant.key, headers=KEYED)
    assert row(error) == (400, "invalid_request_error", None)
    other = await gateway.request("POST", CHAT, BODY, tenant.key)
    assert REPLAYED_FROM not in other.headers
    await gateway.events(2)


async def test_while_it_is_in_flight_the_client_is_told_to_wait_and_then_served(
    gateway: Gateway, engine: FakeEngine
) -> None:
    """The SDK retries a 409 by itself, by our retry-after."""
    tenant = await opted_in(gateway, engine)
    gate = asyncio.Event()
    engine.default = Script(gate=gate)
    ask: Any = {"model": SERVED, "messages": MESSAGES, "extra_headers": {"Idempotency-Key": "order-7"}}
    impatient, patient = gateway.client(tenant), gateway.client(tenant, max_retries=30)
    first = asyncio.create_task(impatient.chat.completions.create(**ask))
    await engine.wait_for(lambda: engine.count("running") == 1)
    with pytest.raises(openai.ConflictError) as raised:
        await impatient.chat.completions.create(**ask)
    assert raised.value.response.headers["retry-after"] == "1"
    asyncio.get_running_loop().call_later(0.5, gate.set)
    second = await patient.chat.completions.create(**ask)
    assert (await first).id == second.id
    assert len(engine.requests) == 1
    await gateway.events(1)


async def test_who_leaves_frees_the_key(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await opted_in(gateway, engine)
    engine.default = Script(first_token_delay_s=30)
    leaving = asyncio.create_task(gateway.request("POST", CHAT, BODY, tenant.key, headers=KEYED))
    await engine.wait_for(lambda: engine.count("running") == 1)
    leaving.cancel()
    await gateway.events(1)
    await gateway.app.idempotency.drain()
    engine.default = Script()
    answer = await gateway.request("POST", CHAT, BODY, tenant.key, headers=KEYED)
    assert answer.status == 200
    assert REPLAYED_FROM not in answer.headers
    await gateway.events(2)


async def test_a_failed_request_and_a_stream_free_their_key(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await opted_in(gateway, engine)
    engine.default = Script(refuse=TOO_LONG)
    assert (await gateway.request("POST", CHAT, BODY, tenant.key, headers=KEYED)).status == 400
    engine.default = Script()
    client = gateway.client(tenant)
    for _ in range(2):
        await gateway.app.idempotency.drain()
        stream = await client.chat.completions.create(
            model=SERVED, messages=MESSAGES, stream=True, extra_headers={"Idempotency-Key": "order-7"}
        )
        assert [chunk async for chunk in stream]
    await gateway.app.idempotency.drain()
    assert await gateway.sql("SELECT * FROM idempotent_request") == []
    assert len(engine.requests) == 3


async def test_who_has_not_opted_in_is_not_bound_by_a_key(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    for _ in range(2):
        answer = await gateway.request("POST", CHAT, BODY, tenant.key, headers=KEYED)
        assert REPLAYED_FROM not in answer.headers
    await gateway.events(2)
    assert await gateway.sql("SELECT * FROM idempotent_request") == []


async def test_a_key_that_makes_no_sense_is_the_callers_mistake(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await opted_in(gateway, engine)
    with pytest.raises(openai.BadRequestError) as raised:
        await gateway.client(tenant).chat.completions.create(
            model=SERVED, messages=MESSAGES, extra_headers={"Idempotency-Key": "x" * 256}
        )
    assert raised.value.param == "Idempotency-Key"
