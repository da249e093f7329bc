"""Long answers are written beside the loop. (The path itself, and one write per step: test_generation.)"""

from __future__ import annotations

import io
import threading
from typing import Any

import orjson
import pytest

from engine.server.completion_shape import CompletionShape
from tests.engine.server.conftest import API_KEY, MODEL, Server


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
