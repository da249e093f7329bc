"""Our own engine's dialect: the gateway's values win, unknown fields travel, nobody sets another's salt."""

from __future__ import annotations

from dataclasses import replace

from gateway.upstream.client import UpstreamClient
from gateway.upstream.native import NativeDialect
from gateway.wire.request import COMPLETIONS, parse_generation
from gateway.wire.usage import Usage
from tests.fakes.engine import FakeEngine
from tests.fakes.script import Script
from tests.gateway.upstream.orders import BODY, ORDER, headers, sent

STREAM = b'{"model":"fake-model","messages":[{"role":"user","content":"a b c"}],"stream":true}'


def test_native() -> None:
    url, headers, body = sent(NativeDialect(), stream=True, priority=-5)
    assert url == "http://e/v1/chat/completions"
    assert body == {
        "model": "up",
        "messages": BODY["messages"],
        "new": 1,
        "stream": True,
        "stream_options": {"include_usage": True},
        "seed": 42,
    }
    assert headers == {
        "content-type": "application/json",
        "authorization": "Bearer key",
        "x-request-id": "req_1",
        "x-gateway-request-id": "req_1",
        "x-gateway-attempt": "1",
        "x-gateway-inference-fairness-id": "f",
        "x-fairness-weight": "3",
        "x-request-class": "interactive",
        "x-cache-salt": "ab",
        "x-max-prompt-tokens": "100",
        "x-max-output-tokens": "20",
    }


def test_completions_path() -> None:
    request = parse_generation(COMPLETIONS, b'{"model": "m", "prompt": "x"}')
    assert NativeDialect().prepare("http://e", None, request, ORDER).url == "http://e/v1/completions"


def test_a_scored_prompt_still_has_a_bound_that_the_engine_takes() -> None:
    request = parse_generation(COMPLETIONS, b'{"model": "m", "prompt": "x", "max_tokens": 0, "echo": true}')
    call = NativeDialect().prepare("http://e", None, request, replace(ORDER, max_output_tokens=0))
    assert call.headers["x-max-output-tokens"] == "1"
    assert b'"max_tokens":0' in call.body


async def test_abort_then_the_journal_knows_the_figure(engine: FakeEngine, client: UpstreamClient) -> None:
    dialect = NativeDialect()
    engine.script(Script(hang_after=2))
    url, key = engine.url, engine.api_key
    reply = await client.post(
        f"{url}/v1/chat/completions", headers(engine, **{"x-gateway-request-id": "req_7"}), STREAM
    )
    await engine.wait_for(lambda: engine.requests[0].usage.completion_tokens == 2)
    assert await dialect.journalled(client, url, key, "req_7", 0) is None
    assert await dialect.abort(client, url, key, "req_7")
    await reply.read_whole()
    figure = await dialect.journalled(client, url, key, "req_7", 0)
    assert figure is not None
    assert figure.usage == Usage(3, 2)
    assert not await dialect.abort(client, url, key, "req_7")
    assert await dialect.journalled(client, url, key, "req_7", 1) is None
