"""Clients that leave: the engine stops at once, and they pay for what was really made."""

from __future__ import annotations

import asyncio
from typing import Any

from gateway.exchange.closer import JOURNAL_PAUSE_S, JOURNAL_TRIES
from tests.fakes import replies
from tests.fakes.engine import FakeEngine
from tests.fakes.script import Script
from tests.gateway.asking import BODY, STREAM, ask
from tests.harness import Gateway, Tenant


async def leave_after(gateway: Gateway, tenant: Tenant, body: dict[str, Any], events: int) -> None:
    answer = await gateway.request("POST", "/v1/chat/completions", body, tenant.key)
    raw = b""
    while raw.count(b"\n\n") < events:
        raw += await answer.content.readany()
    answer.close()


async def test_a_client_that_leaves_pays_prompt_and_what_was_made(
    gateway: Gateway, engine: FakeEngine
) -> None:
    tenant = await gateway.serve(engine)
    engine.script(Script(hang_after=3))
    await leave_after(gateway, tenant, STREAM, 3)
    await engine.wait_for(lambda: engine.count("aborted") == 1, within_s=60)
    [event] = await gateway.events(1)
    assert (event["status"], event["prompt_uncached_tokens"], event["completion_tokens"]) == (
        "cancelled",
        5,
        3,
    )
    assert event["amount_nanousd"] == 5 * 100 + 3 * 1000
    assert engine.running == 0
    assert engine.aborts == 1


async def test_a_client_that_leaves_a_whole_answer(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    engine.script(Script(hang_after=2))
    asking = asyncio.create_task(ask(gateway, tenant, BODY))
    await engine.wait_for(lambda: bool(engine.requests) and engine.requests[0].usage.completion_tokens == 2)
    asking.cancel()
    await engine.wait_for(lambda: engine.running == 0)
    [event] = await gateway.events(1)
    assert (event["status"], event["prompt_uncached_tokens"], event["completion_tokens"]) == (
        "cancelled",
        5,
        2,
    )


async def test_a_client_that_leaves_the_queue_pays_nothing(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    engine.script(Script(first_token_delay_s=30))
    asking = asyncio.create_task(ask(gateway, tenant, STREAM))
    await engine.wait_for(lambda: engine.running == 1)
    asking.cancel()
    await engine.wait_for(lambda: engine.running == 0)
    [event] = await gateway.events(1)
    assert (event["status"], event["amount_nanousd"]) == ("cancelled", 0)


async def test_the_journal_knows_when_the_answer_does_not(gateway: Gateway, engine: FakeEngine) -> None:
    """The engine ends the aborted answer without its figure, as a dying API process would."""
    tenant = await gateway.serve(engine)
    engine.script(Script(hang_after=3, usage=False))
    await leave_after(gateway, tenant, STREAM, 2)
    [event] = await gateway.events(1)
    assert (event["status"], event["completion_tokens"]) == ("cancelled", 3)
    [settled] = await gateway.sql("SELECT is_provisional FROM settled_request")
    assert settled["is_provisional"] is False


async def test_an_engine_that_died_is_waited_for_and_the_hold_with_it(
    gateway: Gateway, engine: FakeEngine
) -> None:
    """Two tokens came, four were made: a guess of two would have given money back that the journal charges."""
    tenant = await gateway.serve(engine)
    await gateway.admin(
        "POST", "/budgets", {"project_id": tenant.id, "period": "monthly", "limit_nanousd": 1 << 40}
    )
    engine.script(Script(hang_after=2))
    asking = asyncio.create_task(ask(gateway, tenant, STREAM))
    await engine.wait_for(lambda: bool(engine.requests) and engine.requests[0].usage.completion_tokens == 2)
    engine.requests[0].usage = replies.Usage(5, 4)
    await engine.stop()
    await asyncio.wait([asking])
    await asyncio.sleep(JOURNAL_TRIES * JOURNAL_PAUSE_S * 1.5)
    assert len(await gateway.sql("SELECT 1 FROM hold")) == 1, "nothing is known yet"
    await engine.start()
    [event] = await gateway.events(1, within_s=60)
    assert (event["status"], event["completion_tokens"]) == ("partial", 4)
    assert await gateway.sql("SELECT is_provisional FROM settled_request") == [{"is_provisional": False}]


async def test_leaving_a_third_partys_engine_is_an_estimate(gateway: Gateway, engine: FakeEngine) -> None:
    engine.api_key = None
    tenant = await gateway.serve(engine, kind="external")
    engine.script(Script(hang_after=3))
    await leave_after(gateway, tenant, STREAM, 3)
    await engine.wait_for(lambda: engine.count("cancelled") == 1)
    [event] = await gateway.events(1)
    assert (event["status"], event["completion_tokens"]) == ("cancelled", 3)
    [settled] = await gateway.sql("SELECT is_provisional FROM settled_request")
    assert settled["is_provisional"] is True
