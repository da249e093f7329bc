"""The FakeEngine does what its script says: every misfortune the gateway's tests rely on really happens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.fakes.engine import FakeEngine
from tests.fakes.script import DRAINING, OVERLOADED, Script

BODY = {"model": "fake-model", "messages": [{"role": "user", "content": "a b c d e"}]}
STREAM = {**BODY, "stream": True, "stream_options": {"include_usage": True}}


@pytest.fixture
async def engine() -> AsyncIterator[FakeEngine]:
    async with FakeEngine() as fake:
        yield fake


@pytest.fixture
async def http(engine: FakeEngine) -> AsyncIterator[aiohttp.ClientSession]:
    headers = {"authorization": f"Bearer {engine.api_key}", "x-gateway-request-id": "req_1"}
    async with aiohttp.ClientSession(engine.url, headers=headers) as session:
        yield session


async def test_echoes_the_last_message(engine: FakeEngine, http: aiohttp.ClientSession) -> None:
    async with http.post("/v1/chat/completions", json=BODY) as response:
        body = await response.json()
    assert body["choices"][0]["message"]["content"] == "a b c d e"
    assert body["usage"]["completion_tokens"] == 5
    assert [record["kind"] for record in engine.journal] == ["start", *["progress"] * 5, "end"]


async def test_refusals(engine: FakeEngine, http: aiohttp.ClientSession) -> None:
    engine.script(Script(refuse=OVERLOADED), Script(refuse=DRAINING))
    for code in ("server_is_overloaded", "draining"):
        async with http.post("/v1/chat/completions", json=BODY) as response:
            assert (response.status, response.headers["retry-after"]) == (503, "1")
            assert (await response.json())["error"]["code"] == code
    assert engine.count("refused") == 2


async def test_dies_mid_stream(engine: FakeEngine, http: aiohttp.ClientSession) -> None:
    engine.script(Script(die_after=2))
    async with http.post("/v1/chat/completions", json=STREAM) as response:
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()
    assert engine.requests[0].state == "died"
    assert engine.journal[-1]["completion_tokens"] == 2


async def test_cut_before_the_first_byte(engine: FakeEngine, http: aiohttp.ClientSession) -> None:
    engine.script(Script(cut_before_answer=True))
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await http.post("/v1/chat/completions", json=STREAM)
    assert engine.requests[0].usage.completion_tokens == 0


async def test_error_event_carries_the_usage(engine: FakeEngine, http: aiohttp.ClientSession) -> None:
    engine.script(Script(fail_after=3))
    async with http.post("/v1/chat/completions", json=STREAM) as response:
        events = _events(await response.read())
    assert events[-1]["usage"]["completion_tokens"] == 3
    assert events[-1]["error"]["type"] == "server_error"


async def test_abort_ends_the_stream_with_the_final_figure(
    engine: FakeEngine, http: aiohttp.ClientSession
) -> None:
    engine.script(Script(hang_after=2))
    async with http.post("/v1/chat/completions", json=STREAM) as response:
        await engine.wait_for(lambda: engine.requests[0].usage.completion_tokens == 2)
        async with http.post("/internal/abort", json={"request_id": "req_1"}) as aborted:
            assert await aborted.json() == {"aborted": True}
        events = _events(await response.read())
    assert events[-1] == "[DONE]"
    assert events[-2]["usage"]["completion_tokens"] == 2
    assert events[-3]["choices"][0]["finish_reason"] == "abort"
    assert engine.count("aborted") == 1


async def test_notices_a_client_that_goes(engine: FakeEngine, http: aiohttp.ClientSession) -> None:
    engine.script(Script(token_delay_s=30))
    response = await http.post("/v1/chat/completions", json=STREAM)
    await engine.wait_for(lambda: engine.running == 1)
    response.close()
    await engine.wait_for(lambda: engine.count("cancelled") == 1)
    assert engine.running == 0


async def test_usage_pages(engine: FakeEngine, http: aiohttp.ClientSession) -> None:
    async with http.post("/v1/chat/completions", json=BODY) as response:
        await response.read()
    kinds, cursor, complete = [], "", False
    while not complete:
        async with http.get(f"/internal/usage?after={cursor}&limit=2") as response:
            page = await response.json()
        kinds += [record["kind"] for record in page["records"]]
        cursor, complete = page["cursor"], page["complete"]
    assert kinds == ["start", *["progress"] * 5, "end"]


async def test_a_killed_engine_comes_back_on_its_port(
    engine: FakeEngine, http: aiohttp.ClientSession
) -> None:
    engine.script(Script(hang_after=1))
    epoch = engine.epoch
    async with http.post("/v1/chat/completions", json=STREAM) as response:
        await engine.stop()
        with pytest.raises(aiohttp.ClientError):
            await response.read()
    await engine.start()
    async with http.get("/internal/status") as response:
        status: dict[str, Any] = await response.json()
    assert status["epoch"] != epoch
    assert status["running"] == 0


async def test_aborts_a_request_that_waits(engine: FakeEngine, http: aiohttp.ClientSession) -> None:
    engine.script(Script(first_token_delay_s=30))
    waiting = asyncio.create_task(_read(http, BODY))
    await engine.wait_for(lambda: engine.running == 1)
    async with http.post("/internal/abort", json={"request_id": "req_1"}) as response:
        assert (await response.json())["aborted"]
    body = json.loads(await waiting)
    assert body["usage"]["completion_tokens"] == 0


async def _read(http: aiohttp.ClientSession, body: dict[str, Any]) -> bytes:
    async with http.post("/v1/chat/completions", json=body) as response:
        return await response.read()


def _events(raw: bytes) -> list[Any]:
    data = [event.removeprefix("data: ") for event in raw.decode().split("\n\n") if event]
    return [text if text == "[DONE]" else json.loads(text) for text in data]
