"""The request path when things go wrong: retries, disconnects, broken streams, timeouts, full replicas.

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
from tests.harness import SERVED, Gateway, Tenant

WORDS = "one two three four five"
BODY: dict[str, Any] = {"model": SERVED, "messages": [{"role": "user", "content": WORDS}]}
STREAM = {**BODY, "stream": True}
CUT = Script(cut_before_answer=True)


@pytest.fixture
async def second() -> AsyncIterator[FakeEngine]:
    async with FakeEngine() as fake:
        yield fake


async def ask(gateway: Gateway, tenant: Tenant, body: dict[str, Any]) -> tuple[int, bytes]:
    answer = await gateway.request("POST", "/v1/chat/completions", body, tenant.key)
    return answer.status, await answer.read()


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
    attempts = await gateway.attempts()
    assert [row["attempt"] for row in attempts] == list(range(failures + 1))
    assert [row["unbilled_reason"] for row in attempts] == ["retry"] * failures + [None]
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


# -- clients that leave -----------------------------------------------------------------------------------


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
    await engine.wait_for(lambda: engine.count("aborted") == 1, within_s=5)
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


# -- broken streams ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", [Script(fail_after=2), Script(die_after=2)], ids=["error event", "death"])
async def test_an_error_after_the_first_byte(gateway: Gateway, engine: FakeEngine, trouble: Script) -> None:
    tenant = await gateway.serve(engine)
    engine.script(trouble, trouble)
    status, raw = await ask(gateway, tenant, STREAM)
    assert status == 200
    assert b"[DONE]" not in raw
    last = json.loads(raw.strip().split(b"\n\n")[-1].removeprefix(b"data: "))
    assert set(last) == {"error"}
    assert set(last["error"]) == {"message", "type", "param", "code"}
    stream = await gateway.client(tenant).chat.completions.create(**STREAM)
    with pytest.raises(openai.APIError):
        _ = [chunk async for chunk in stream]
    events = await gateway.events(2)
    assert [(e["status"], e["prompt_uncached_tokens"], e["completion_tokens"]) for e in events] == [
        ("partial", 5, 2)
    ] * 2
    assert len(engine.requests) == 2, "never a second try once data has come"


async def test_a_whole_answer_that_breaks_costs_nothing(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    engine.default = Script(fail_after=2)
    status, _ = await ask(gateway, tenant, BODY)
    assert status == 500
    [event] = await gateway.events(1)
    assert (event["status"], event["amount_nanousd"]) == ("error", 0)
    attempts = await gateway.attempts()
    assert [row["completion_tokens"] for row in attempts] == [2, 2, 2]
    assert [row["unbilled_reason"] for row in attempts] == ["retry", "retry", "our_error"]


async def test_an_answer_without_usage_is_still_charged(gateway: Gateway, engine: FakeEngine) -> None:
    engine.api_key = None
    tenant = await gateway.serve(engine, kind="external")
    engine.default = Script(usage=False)
    status, _ = await ask(gateway, tenant, STREAM)
    assert status == 200
    [event] = await gateway.events(1)
    assert event["completion_tokens"] >= 5
    assert event["amount_nanousd"] > 0


# -- time -------------------------------------------------------------------------------------------------


class TestTimeouts:
    @pytest.fixture
    def gateway_changes(self) -> dict[str, Any]:
        return {
            "upstream": {
                "first_token_timeout_s": 0.4,
                "between_tokens_timeout_s": 0.4,
                "total_timeout_s": 3.0,
            }
        }

    async def test_first_token(self, gateway: Gateway, engine: FakeEngine) -> None:
        tenant = await gateway.serve(engine)
        engine.script(Script(first_token_delay_s=30))
        status, raw = await ask(gateway, tenant, STREAM)
        assert (status, json.loads(raw)["error"]["code"]) == (504, "timeout")
        await engine.wait_for(lambda: engine.running == 0)
        [event] = await gateway.events(1)
        assert (event["status"], event["amount_nanousd"]) == ("error", 0)
        assert len(engine.requests) == 1, "a replica that hangs is not asked again"

    async def test_between_tokens(self, gateway: Gateway, engine: FakeEngine) -> None:
        tenant = await gateway.serve(engine)
        engine.script(Script(hang_after=2))
        _, raw = await ask(gateway, tenant, STREAM)
        assert b'"code":"timeout"' in raw
        assert b"[DONE]" not in raw
        [event] = await gateway.events(1)
        assert (event["status"], event["completion_tokens"], event["error_code"]) == ("partial", 2, "timeout")
        assert engine.running == 0

    async def test_total_of_a_whole_answer(self, gateway: Gateway, engine: FakeEngine) -> None:
        tenant = await gateway.serve(engine)
        engine.script(Script(hang_after=2))
        status, _ = await ask(gateway, tenant, BODY)
        assert status == 504
        [event] = await gateway.events(1)
        assert (event["status"], event["amount_nanousd"]) == ("error", 0)
        assert engine.running == 0

    async def test_a_reader_that_stops_is_a_client_that_left(
        self, gateway: Gateway, engine: FakeEngine
    ) -> None:
        tenant = await gateway.serve(engine)
        engine.script(Script(tokens=("x" * 200_000,) * 200))
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", int(gateway.url.rsplit(":", 1)[1]), limit=1024
        )
        body = json.dumps({**STREAM, "max_tokens": 1000}).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {tenant.key}\r\n"
        writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        await reader.readexactly(100)
        await engine.wait_for(lambda: engine.running == 0 and engine.count("aborted") == 1, within_s=20)
        [event] = await gateway.events(1)
        assert event["status"] == "cancelled"
        assert 0 < event["completion_tokens"] < 200
        writer.close()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await reader.readexactly(200_000_000)


# -- the end of a process ---------------------------------------------------------------------------------


async def test_sigterm_settles_what_is_under_way(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    engine.default = Script(token_delay_s=0.02)
    running = [asyncio.create_task(ask(gateway, tenant, STREAM)) for _ in range(10)]
    await engine.wait_for(lambda: engine.running == 10, within_s=10)
    await gateway.stop()
    answers = await asyncio.gather(*running)
    assert [status for status, _ in answers] == [200] * 10
    assert all(raw.endswith(b"[DONE]\n\n") for _, raw in answers)
    assert len(await gateway.events(10)) == 10


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
