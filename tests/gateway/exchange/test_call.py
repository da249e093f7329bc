"""Answers that break or come too late, before and after the first byte."""

from __future__ import annotations

import asyncio
import json

import openai
import pytest

from tests.fakes.engine import FakeEngine
from tests.fakes.script import Script
from tests.gateway.asking import BODY, STREAM, ask
from tests.harness import Gateway


@pytest.mark.parametrize("trouble", [Script(fail_after=2), Script(die_after=2)], ids=["error event", "death"])
async def test_an_error_after_the_first_byte(gateway: Gateway, engine: FakeEngine, trouble: Script) -> None:
    """Duty G36: after the first byte a failure is an error event without [DONE], and partial in the ledger."""
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


async def test_a_reader_that_is_too_slow_is_not_held_against_the_replica(
    gateway: Gateway, engine: FakeEngine
) -> None:
    """The engine ends the stream, since so much of it waits for us, because so much waits for our caller."""
    tenant = await gateway.serve(engine)
    engine.default = Script(fail_after=2, fail_code="reader_too_slow")
    for _ in range(8):  # more than any breaker would stand
        _, raw = await ask(gateway, tenant, STREAM)
        assert b'"code":"reader_too_slow"' in raw
        assert b"[DONE]" not in raw
    events = await gateway.events(8)
    found = {(e["status"], e["error_code"], e["completion_tokens"]) for e in events}
    assert found == {("partial", "reader_too_slow", 2)}
    assert b'outcome="failed"' not in gateway.app.metrics.render()
    assert len(engine.requests) == 8


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


def limits(**seconds: float) -> pytest.MarkDecorator:
    """Of one kind each, so that no other one can end what a busy machine delays."""
    return pytest.mark.parametrize("gateway_changes", [{"upstream": seconds}])


class TestTimeouts:
    @limits(first_token_timeout_s=2.0)
    async def test_first_token(self, gateway: Gateway, engine: FakeEngine) -> None:
        tenant = await gateway.serve(engine)
        engine.script(Script(first_token_delay_s=30))
        status, raw = await ask(gateway, tenant, STREAM)
        assert (status, json.loads(raw)["error"]["code"]) == (504, "timeout")
        await engine.wait_for(lambda: engine.running == 0)
        [event] = await gateway.events(1)
        assert (event["status"], event["amount_nanousd"]) == ("error", 0)
        assert len(engine.requests) == 1, "a replica that hangs is not asked again"

    @limits(between_tokens_timeout_s=2.0)
    async def test_between_tokens(self, gateway: Gateway, engine: FakeEngine) -> None:
        tenant = await gateway.serve(engine)
        engine.script(Script(hang_after=2))
        _, raw = await ask(gateway, tenant, STREAM)
        assert b'"code":"timeout"' in raw
        assert b"[DONE]" not in raw
        [event] = await gateway.events(1)
        assert (event["status"], event["completion_tokens"], event["error_code"]) == ("partial", 2, "timeout")
        assert engine.running == 0

    @limits(total_timeout_s=3.0)
    async def test_total_of_a_whole_answer(self, gateway: Gateway, engine: FakeEngine) -> None:
        tenant = await gateway.serve(engine)
        engine.script(Script(hang_after=2))
        status, _ = await ask(gateway, tenant, BODY)
        assert status == 504
        [event] = await gateway.events(1)
        assert (event["status"], event["amount_nanousd"]) == ("error", 0)
        assert engine.running == 0

    @limits(total_timeout_s=4.0)
    async def test_a_stream_that_outlasts_its_time_is_not_held_against_the_replica(
        self, gateway: Gateway, engine: FakeEngine
    ) -> None:
        """Else a few long or slowly read answers of one tenant would open the breaker for all others."""
        tenant = await gateway.serve(engine)
        engine.script(Script(tokens=("x",) * 100, token_delay_s=0.1))
        _, raw = await ask(gateway, tenant, {**STREAM, "max_tokens": 100})
        assert b'"code":"timeout"' in raw
        [event] = await gateway.events(1)
        assert (event["status"], event["error_code"]) == ("partial", "timeout")
        assert b'outcome="outlasted"' in gateway.app.metrics.render()
        assert b'outcome="failed"' not in gateway.app.metrics.render()

    @limits(between_tokens_timeout_s=2.0)
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
        await engine.wait_for(lambda: engine.running == 0 and engine.count("aborted") == 1, within_s=60)
        [event] = await gateway.events(1)
        assert event["status"] == "cancelled"
        assert 0 < event["completion_tokens"] < 200
        writer.close()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await reader.readexactly(200_000_000)
