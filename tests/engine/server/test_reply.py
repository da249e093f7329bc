"""Long answers are written beside the loop. (The path itself, and one write per step: test_generation.)"""

from __future__ import annotations

import asyncio
import io
import threading
from typing import Any

import orjson
import pytest

from engine.server import answer_size, reply
from engine.server.completion_shape import CompletionShape
from tests.engine.server.conftest import API_KEY, MODEL, Server
from tests.engine.server.test_generation import CHAT, GATEWAY, idle, records
from tests.fakes.core import Script


@pytest.mark.parametrize("stream", [False, True])
async def test_many_log_probabilities_are_written_beside_the_loop(
    server: Server, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    """A few at once: a thread would take longer to begin."""
    threads: list[str] = []

    def noting(name: str) -> None:
        plain = getattr(CompletionShape, name)

        def noted(*args: Any) -> Any:
            threads.append(threading.current_thread().name)
            return plain(*args)

        monkeypatch.setattr(CompletionShape, name, noted)

    noting("opening" if stream else "whole")
    body = {"model": MODEL, "echo": True, "logprobs": 5, "max_tokens": 1, "stream": stream}
    async with server.session(API_KEY) as session:
        for length in (10, 1000):
            raw = io.BytesIO(orjson.dumps(body | {"prompt": [5] * length}))
            async with session.post("/v1/completions", data=raw) as answer:
                assert answer.status == 200
                await answer.read()
    assert threads[0] == threading.current_thread().name
    assert threads[1].startswith("text")


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_says_how_long_it_waited(server: Server, stream: bool) -> None:
    """A refusal has not waited for anything."""
    body = {"model": MODEL, "prompt": "a b", "max_tokens": 2, "stream": stream}
    async with server.session(API_KEY) as session:
        async with session.post("/v1/completions", json=body) as answer:
            assert answer.status == 200
            assert answer.headers["x-engine-queue-ms"].isdecimal()
            await answer.read()
        async with session.post("/v1/completions", json=body | {"model": "none"}) as refused:
            assert refused.status == 404
            assert "x-engine-queue-ms" not in refused.headers


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
async def test_a_whole_answer_ends_where_its_text_is_too_long(
    server: Server, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """As at any other length: what was made is delivered and counted, the rest is not made."""
    monkeypatch.setattr(reply, "MAX_ANSWER_BYTES", 40)
    body: dict[str, Any] = {"model": MODEL, "n": 2, "max_tokens": 900}
    body |= {"prompt": "x"} if path == "/v1/completions" else {"messages": [{"role": "user", "content": "x"}]}
    async with server.session(API_KEY) as session, session.post(path, json=body) as answer:
        assert answer.status == 200
        found = await answer.json()
    texts = [choice.get("text") or choice["message"]["content"] for choice in found["choices"]]
    assert sum(len(text.encode()) for text in texts) > 40
    assert [choice["finish_reason"] for choice in found["choices"]] == ["length", "length"]
    assert 2 < found["usage"]["completion_tokens"] < 1800
    await server.core_until(lambda: server.core.num_live == 0)
    (end,) = [record for record in records(server) if record.kind == "end"]
    assert (end.finish_reason, end.completion_tokens) == ("length", found["usage"]["completion_tokens"])


async def test_a_stream_is_as_long_as_it_gets(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply, "MAX_ANSWER_BYTES", 40)
    body = {"model": MODEL, "max_tokens": 100, "prompt": "x", "stream": True}
    body["stream_options"] = {"include_usage": True}
    async with server.session(API_KEY) as session, session.post("/v1/completions", json=body) as answer:
        assert '"completion_tokens":100' in await answer.text()


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/completions", {"prompt": "x" * 20, "n": 2}),
        ("/v1/completions", {"prompt": ["x" * 20, "y" * 20]}),
        ("/v1/completions", {"prompt": ["ü" * 18]}),
        ("/v1/chat/completions", {"messages": [{"role": "assistant", "content": "x" * 36}]}),
    ],
)
async def test_what_an_answer_repeats_has_a_bound(
    server: Server, monkeypatch: pytest.MonkeyPatch, path: str, fields: dict[str, Any]
) -> None:
    body = {"model": MODEL, "max_tokens": 1, "echo": True, **fields}
    async with server.session(API_KEY) as session:
        async with session.post(path, json=body) as answer:
            assert answer.status == 200
        monkeypatch.setattr(answer_size, "MAX_ANSWER_BYTES", 35)
        async with session.post(path, json=body) as answer:
            assert answer.status == 400
            assert (await answer.json())["error"]["param"] == "echo"


@pytest.mark.parametrize(
    ("scripts", "worst"),
    [
        ((Script((70, 71)), Script((70, 71), finish="length")), "length"),
        ((Script((70, 71), finish="length"), Script((70, 71))), "length"),
        ((Script((70, 71), finish="length"), Script(silent=True)), "abort"),
        ((Script(silent=True), Script((70, 71))), "abort"),
        ((Script((70, 71)), Script((70,) * 5, finish="error", error_code="engine_error")), "error"),
        ((Script(silent=True), Script((70, 71), finish="error", error_code="engine_error")), "error"),
    ],
)
async def test_of_several_ends_the_worst_is_journalled(
    server: Server, scripts: tuple[Script, ...], worst: str
) -> None:
    server.core.script(*scripts)
    body = {**CHAT, "n": 2}
    async with server.session() as session:
        asked = asyncio.create_task(session.post("/v1/chat/completions", json=body, headers=GATEWAY))
        if worst == "abort":
            await server.core_until(lambda: len(server.core.seen) == 2 and server.core.num_live == 1)
            async with session.post("/internal/abort", json={"request_id": "gw-1"}) as aborted:
                assert await aborted.json() == {"aborted": True}
        async with await asked as answer:
            assert answer.status == (500 if worst == "error" else 200)
    await idle(server)
    assert [record.finish_reason for record in records(server) if record.kind == "end"] == [worst]
