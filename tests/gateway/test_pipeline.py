"""The request path when things go wrong: retries, disconnects, broken streams, timeouts, full replicas.

After every test the fixture checks the books: one event for each admitted request, nothing held.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from tests.fakes.engine import FakeEngine
from tests.fakes.script import BROKEN, DRAINING, OVERLOADED, TOO_LONG, Script
from tests.gateway.asking import BODY, STREAM, ask
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
    tenant = await gateway.serve(engine)
    await ask(gateway, tenant, BODY)
    engine.script(CUT)
    status, _ = await ask(gateway, tenant, BODY)
    assert status == 200
    assert engine.connections_made == 2
    assert len(await gateway.events(2)) == 2
    [replica] = gateway.app.replicas.order(gateway.target(tenant))
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


async def test_no_replica_at_all(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    await gateway.sql("UPDATE replica SET state = 'stopped'")
    await gateway.refresh()
    status, raw = await ask(gateway, tenant, BODY)
    assert (status, json.loads(raw)["error"]["code"]) == (503, "server_is_overloaded")
    assert engine.requests == []


async def test_connections_to_the_engine_are_reused(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    for _ in range(5):
        await ask(gateway, tenant, STREAM)
    assert engine.connections_made == 1


def test_the_path_is_one_short_file() -> None:
    from gateway import pipeline

    assert pipeline.__file__ is not None
    with open(pipeline.__file__, encoding="utf-8") as source:
        assert sum(1 for _ in source) <= 300
