"""Signs of life before a late first token, and what becomes of errors after them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

import openai
import pytest

from gateway.exchange.keep_alive import COMMENT, KeepAlive
from tests.fakes.engine import FakeEngine
from tests.fakes.script import BROKEN, TOO_LONG, Script
from tests.gateway.asking import BODY, STREAM, ask
from tests.harness import Gateway, Tenant


async def quick(
    gateway: Gateway, engine: FakeEngine, *, keep_alive_s: float = 0.05, first_token_s: float = 60
) -> Tenant:
    """A pool that gives signs of life after 50 ms, whatever the settings say."""
    tenant = await gateway.serve(engine)
    await gateway.sql(
        "UPDATE pool SET keep_alive_s = $1, first_token_timeout_s = $2, connect_timeout_s = 60",
        keep_alive_s,
        first_token_s,
    )
    await gateway.refresh()
    return tenant


async def test_comments_until_the_first_token(gateway: Gateway, engine: FakeEngine) -> None:
    """Duty engine-18: comments, until there is a token."""
    tenant = await quick(gateway, engine)
    gate = asyncio.Event()
    engine.script(Script(first_token_delay_s=0.4, gate=gate), Script(first_token_delay_s=0.4))
    answer = await gateway.request("POST", "/v1/chat/completions", STREAM, tenant.key)
    assert answer.status == 200
    raw = await answer.content.readexactly(2 * len(COMMENT))
    gate.set()
    raw += await answer.content.read()
    comments, data = raw.count(COMMENT), raw.lstrip(COMMENT)
    assert comments >= 2
    assert raw == COMMENT * comments + data
    assert data.endswith(b"data: [DONE]\n\n")
    stream = await gateway.client(tenant).chat.completions.create(**STREAM)
    text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert text == BODY["messages"][0]["content"]
    assert stream.response.headers["x-accel-buffering"] == "no"
    events = await gateway.events(2)
    assert all(event["ttft_ms"] >= 400 for event in events), "a comment is no first token"
    assert (
        b'tollway_first_token_seconds_bucket{le="0.25",model="served-model"' in gateway.app.metrics.render()
    )
    for line in gateway.app.metrics.render().splitlines():
        if line.startswith(b'tollway_first_token_seconds_bucket{le="0.25",model="served-model"'):
            assert line.endswith(b" 0.0")


async def test_a_quick_stream_and_a_whole_answer_have_none(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await quick(gateway, engine, keep_alive_s=2.0)
    engine.default = Script(tokens=("one", "two"), token_delay_s=2.2)
    for _, raw in await asyncio.gather(*(ask(gateway, tenant, body) for body in (STREAM, BODY))):
        assert b"two" in raw
        assert COMMENT not in raw


@pytest.mark.parametrize(("refusal", "code"), [(TOO_LONG, "context_length_exceeded"), (BROKEN, None)])
async def test_after_a_sign_of_life_an_error_is_an_event(
    gateway: Gateway, engine: FakeEngine, refusal: object, code: str | None
) -> None:
    tenant = await quick(gateway, engine)
    engine.default = Script(first_token_delay_s=0.6, late_refusal=refusal)  # type: ignore[arg-type]
    status, raw = await ask(gateway, tenant, STREAM)
    assert (status, b"[DONE]" in raw) == (200, False)
    error = json.loads(raw.strip().split(b"\n\n")[-1].removeprefix(b"data: "))["error"]
    assert error["code"] == code
    stream = await gateway.client(tenant).chat.completions.create(**STREAM)
    with pytest.raises(openai.APIError):
        _ = [chunk async for chunk in stream]
    assert {event["amount_nanousd"] for event in await gateway.events(2)} == {0}


async def test_a_retry_is_still_allowed_after_it(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await quick(gateway, engine)
    engine.script(Script(first_token_delay_s=0.3, late_refusal=BROKEN), Script())
    status, raw = await ask(gateway, tenant, STREAM)
    assert status == 200
    assert raw.endswith(b"data: [DONE]\n\n")
    assert len(engine.requests) == 2


async def test_a_first_token_that_never_comes_is_a_timeout_event(
    gateway: Gateway, engine: FakeEngine
) -> None:
    """Duty G37: the pool's own first-token time holds, whatever the settings say, and after signs of life too."""
    tenant = await quick(gateway, engine, first_token_s=2.0)
    engine.script(Script(hang_after=0))
    status, raw = await ask(gateway, tenant, STREAM)
    assert (status, b'"code":"timeout"' in raw, b"[DONE]" in raw) == (200, True, False)
    await engine.wait_for(lambda: engine.running == 0)


async def test_one_comment_at_a_time_and_none_into_data() -> None:
    sent: list[bytes] = []
    readable = asyncio.Event()

    class Slow:
        async def whole(self, headers: Mapping[str, str], body: bytes) -> None:
            raise AssertionError

        async def stream(self, headers: Mapping[str, str], data: bytes, *, last: bool) -> None:
            await readable.wait()
            sent.append(data)

    alive = KeepAlive(Slow(), {"x-a": "b"})
    for _ in range(3):
        alive.pulse()
        await asyncio.sleep(0)
    resting = asyncio.create_task(alive.rest())
    await asyncio.sleep(0)
    assert (sent, resting.done(), alive.pulses) == ([], False, 1)
    readable.set()
    await resting
    assert sent == [COMMENT]
    alive.pulse()
    alive.stop()
    await asyncio.sleep(0)
    assert sent == [COMMENT]
