"""Which replica is asked next when one fails: retries, breakers, full and draining replicas.

After every test the fixture checks the books: one event for each admitted request, nothing held.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from tests.fakes.engine import FakeEngine
from tests.fakes.script import BROKEN, DRAINING, OVERLOADED, TOO_LONG, Script
from tests.gateway.asking import BODY, PROMPT, STREAM, ask
from tests.harness import Gateway

CUT = Script(cut_before_answer=True)


@pytest.fixture
async def second() -> AsyncIterator[FakeEngine]:
    async with FakeEngine() as fake:
        yield fake


# -- retries ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [CUT, Script(refuse=BROKEN), Script(die_after=0), Script(fail_after=0)])
@pytest.mark.parametrize("failures", [1, 2])
@pytest.mark.parametrize("body", [BODY, STREAM], ids=["whole", "stream"])
async def test_a_failure_before_data_is_retried_and_billed_once(
    gateway: Gateway, engine: FakeEngine, body: dict[str, Any], failures: int, failure: Script
) -> None:
    tenant = await gateway.serve(engine)
    engine.script(*[failure] * failures)
    status, raw = await ask(gateway, tenant, body)
    assert status == 200, raw
    [event] = await gateway.events(1)
    assert (event["status"], event["completion_tokens"], event["amount_nanousd"]) == ("ok", 5, 500 + 5000)
    # What an engine that broke had produced is written when its journal is read, not guessed.
    told = list(range(failures)) if failure == Script(fail_after=0) else []
    attempts = await gateway.attempts()
    assert [row["attempt"] for row in attempts] == [*told, failures]
    assert [row["unbilled_reason"] for row in attempts] == ["retry"] * len(told) + [None]
    assert [seen.attempt for seen in engine.requests] == list(range(failures + 1))
    assert len({seen.request_id for seen in engine.requests}) == 1


@pytest.mark.parametrize("body", [BODY, STREAM], ids=["whole", "stream"])
async def test_three_failures_are_an_error_that_costs_nothing(
    gateway: Gateway, engine: FakeEngine, body: dict[str, Any]
) -> None:
    tenant = await gateway.serve(engine)
    engine.script(CUT, Script(refuse=BROKEN), CUT)
    status, raw = await ask(gateway, tenant, body)
    assert (status, json.loads(raw)["error"]["type"]) == (500, "server_error")
    [event] = await gateway.events(1)
    assert (event["status"], event["amount_nanousd"]) == ("error", 0)
    assert len(engine.requests) == 3


async def test_another_replica_is_asked(gateway: Gateway, engine: FakeEngine, second: FakeEngine) -> None:
    tenant = await gateway.serve(engine, second)
    await engine.stop()
    for _ in range(6):
        status, _ = await ask(gateway, tenant, STREAM)
        assert status == 200
    assert len(second.requests) == 6
    assert {event["status"] for event in await gateway.events(6)} == {"ok"}


async def test_client_errors_are_relayed_and_never_retried(gateway: Gateway, engine: FakeEngine) -> None:
    """Duty G39: client errors never count against an engine, and are never tried again."""
    tenant = await gateway.serve(engine)
    engine.default = Script(refuse=TOO_LONG)
    for _ in range(8):  # more than any breaker would stand
        with pytest.raises(openai.BadRequestError) as caught:
            await gateway.client(tenant).chat.completions.create(**BODY)
        assert caught.value.code == "context_length_exceeded"
    engine.default = Script()
    status, _ = await ask(gateway, tenant, BODY)
    assert status == 200
    assert len(engine.requests) == 9
    events = await gateway.events(9)
    assert [event["amount_nanousd"] for event in events[:8]] == [0] * 8


async def test_who_refuses_a_client_has_answered(gateway: Gateway, engine: FakeEngine) -> None:
    """Failures before and after it are not in a row."""
    tenant = await gateway.serve(engine)
    [replica] = gateway.app.replicas.known
    for _ in range(2):
        engine.script(*[Script(refuse=BROKEN)] * 3, Script(refuse=TOO_LONG))
        statuses = [(await ask(gateway, tenant, BODY))[0] for _ in range(2)]
        assert statuses == [500, 400]
        assert not replica.breaker.is_open


async def test_retries_stop_at_the_pools_budget(gateway: Gateway, engine: FakeEngine) -> None:
    """Duty G38: attempts are bounded by the pool's budget, however many requests fail."""
    tenant = await gateway.serve(engine)
    engine.default = Script(refuse=BROKEN)
    for _ in range(12):
        await ask(gateway, tenant, BODY)
    assert len(engine.requests) < 12 + 11


async def test_the_breaker_keeps_a_broken_replica_out(
    gateway: Gateway, engine: FakeEngine, second: FakeEngine
) -> None:
    tenant = await gateway.serve(engine, second)
    engine.default = Script(refuse=BROKEN)
    for _ in range(40):
        await ask(gateway, tenant, BODY)
    assert len(engine.requests) <= 10
    assert len(second.requests) >= 35


async def test_a_dead_kept_connection_is_replaced_without_blame(gateway: Gateway, engine: FakeEngine) -> None:
    gateway.app._tasks[0].cancel()  # the polls, which now and then have the kept connection
    tenant = await gateway.serve(engine)
    await ask(gateway, tenant, BODY)
    engine.script(CUT)
    status, _ = await ask(gateway, tenant, BODY)
    assert status == 200
    assert engine.connections_made == 2
    assert len(await gateway.events(2)) == 2
    [replica] = gateway.app.replicas.order(gateway.target(tenant), PROMPT)
    assert not replica.breaker.is_open
    assert gateway.app.replicas.budget(replica.row.pool_id).taken == 0


# -- full and draining ------------------------------------------------------------------------------------


@pytest.mark.parametrize("refusal", [OVERLOADED, DRAINING])
async def test_a_full_replica_is_503_with_retry_after(
    gateway: Gateway, engine: FakeEngine, refusal: Any
) -> None:
    tenant = await gateway.serve(engine)
    engine.script(Script(refuse=refusal))
    with pytest.raises(openai.InternalServerError) as caught:
        await gateway.client(tenant).chat.completions.create(**BODY)
    assert (caught.value.status_code, caught.value.code) == (503, "server_is_overloaded")
    assert caught.value.response.headers["retry-after"] == "1"
    assert len(engine.requests) == 1
    [event] = await gateway.events(1)
    assert event["amount_nanousd"] == 0


async def test_a_draining_replica_is_left_for_another(
    gateway: Gateway, engine: FakeEngine, second: FakeEngine
) -> None:
    tenant = await gateway.serve(engine, second)
    engine.state = "draining"
    for _ in range(8):
        status, _ = await ask(gateway, tenant, BODY)
        assert status == 200
    assert len(second.requests) == 8


async def test_a_full_or_draining_replica_is_not_a_broken_one(gateway: Gateway, engine: FakeEngine) -> None:
    """Duty G39: an honest "overloaded" or "draining" never counts against an engine, however often."""
    tenant = await gateway.serve(engine)
    for refusal in (OVERLOADED, DRAINING):
        for _ in range(8):  # in a row, more than any breaker would stand
            engine.script(Script(refuse=refusal))
            assert (await ask(gateway, tenant, BODY))[0] == 503
            await gateway.poll()  # by which it is ready
    [replica] = gateway.app.replicas.known
    assert not replica.breaker.is_open
    status, _ = await ask(gateway, tenant, BODY)
    assert status == 200
    assert len(engine.requests) == 17


async def test_the_less_loaded_is_tried_when_one_is_full(
    gateway: Gateway, engine: FakeEngine, second: FakeEngine
) -> None:
    tenant = await gateway.serve(engine, second)
    for fake in (engine, second):
        fake.default = Script(refuse=OVERLOADED)
    engine.reported_waiting, second.reported_waiting = 9, 5
    await gateway.poll()
    status, _ = await ask(gateway, tenant, BODY)
    assert status == 503
    assert (len(engine.requests), len(second.requests)) == (0, 1), "the other one has more to do"
    assert gateway.retries_taken(tenant) == 0
    second.reported_waiting, engine.default = 20, Script()
    status, _ = await ask(gateway, tenant, BODY)
    assert status == 200
    assert gateway.retries_taken(tenant) == 1


async def test_leaving_draining_replicas_takes_no_retry_budget(
    gateway: Gateway, engine: FakeEngine, second: FakeEngine
) -> None:
    tenant = await gateway.serve(engine, second)
    second.default = Script(token_delay_s=0.01)
    gate = asyncio.Event()
    engine.default = Script(gate=gate, late_refusal=DRAINING)
    asking = [asyncio.create_task(ask(gateway, tenant, BODY)) for _ in range(40)]
    await engine.wait_for(lambda: len(engine.requests) > 1)
    gate.set()
    answers = await asyncio.gather(*asking)
    assert {status for status, _ in answers} == {200}
    assert len(engine.requests) > 1
    assert gateway.retries_taken(tenant) == 0


class TestHanging:
    async def test_the_attempt_before_is_stopped_and_nobody_pays_for_it(
        self, gateway: Gateway, engine: FakeEngine, second: FakeEngine
    ) -> None:
        """Duty G38: a retry comes before data only, after the abort of the attempt before it, which is unbilled."""
        tenant = await gateway.serve(engine, second)
        await _wait_for_first_tokens(gateway, 1.5)
        for fake in (engine, second):
            fake.script(Script(hang_after=0))
        answered = await ask(gateway, tenant, STREAM)
        assert answered[0] == 504
        first, then = sorted((engine.requests[0], second.requests[0]), key=lambda seen: seen.attempt)
        assert (first.attempt, then.attempt, len(engine.requests + second.requests)) == (0, 1, 2)
        await engine.wait_for(lambda: engine.running == 0)
        await second.wait_for(lambda: second.running == 0)
        assert (engine.aborts, second.aborts) == (1, 1)
        await _wait_for_first_tokens(gateway, 60)
        status, _ = await ask(gateway, tenant, STREAM)
        assert status == 200
        events = await gateway.events(2)
        assert [event["amount_nanousd"] for event in events] == [0, 5500]
        rows = [row for row in await gateway.attempts() if row["request_id"] == first.request_id]
        assert [(row["attempt"], row["unbilled_reason"]) for row in rows] == [(0, "retry"), (1, "our_error")]


async def _wait_for_first_tokens(gateway: Gateway, seconds: float) -> None:
    await gateway.sql("UPDATE pool SET first_token_timeout_s = $1", seconds)
    await gateway.refresh()
