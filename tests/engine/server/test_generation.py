"""The path of one request: disconnects, failures before and after the first byte, the journal's order."""

from __future__ import annotations

import asyncio
import contextlib
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from engine.server.journal import Record
from engine.server.journal_reader import read_page
from tests.engine.server.conftest import API_KEY, INTERNAL_KEY, MODEL, Server
from tests.fakes.core import Script, ready

CHAT: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "The lamps"}]}
GATEWAY = {"x-gateway-request-id": "gw-1", "x-gateway-attempt": "1"}


def events(text: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in text.split("\n") if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def records(server: Server) -> list[Record]:
    assert server.services.journal_dir is not None
    return read_page(server.services.journal_dir, "", 10_000).records


async def idle(server: Server) -> None:
    """Nothing is left of any request, on either side."""
    await server.until(lambda: not server.services.in_flight and server.services.bridge.num_live == 0)
    await server.core_until(lambda: server.core.num_live == 0)


async def produced(server: Server, num_tokens: int) -> None:
    """A request in flight has reported this many tokens."""
    await server.until(
        lambda: any(g.usage.completion_tokens == num_tokens for g in server.services.in_flight)
    )


# -- the caller goes away ---------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
async def test_disconnect_while_queued(server: Server, stream: bool, path: str) -> None:
    """Duty engine-2: it costs nothing, and the core hears of it."""
    server.core.script(Script(silent=True))
    body = {**CHAT, "prompt": "x", "stream": stream}
    async with server.session() as session:
        waiting = asyncio.create_task(session.post(path, json=body, headers=GATEWAY))
        await server.core_until(lambda: server.core.num_live == 1)
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
        await server.core_until(lambda: len(server.core.aborted) == 1)
    await idle(server)
    end = records(server)[-1]
    assert (end.kind, end.completion_tokens, end.finish_reason) == ("end", 0, "abort")


async def test_disconnect_during_a_stream(server: Server) -> None:
    """Duty engine-2: Aborted within one step: what was made after the caller left is overrun, and at most two steps of it."""
    server.core.hold()
    async with server.session() as session:
        answer = await _open_stream(server, session, steps=5)
        answer.close()
        await server.until(lambda: _disconnects(server) == 1)
        server.core.release(50)
        await server.core_until(lambda: len(server.core.aborted) == 1)
    await idle(server)
    end = records(server)[-1]
    assert (end.kind, end.completion_tokens, end.finish_reason) == ("end", 5, "abort")
    assert end.overrun_tokens is not None
    assert end.overrun_tokens <= 2
    assert (end.request_id, end.attempt) == ("gw-1", 1)


@pytest.mark.parametrize("stream", [True, False])
async def test_what_is_made_after_the_caller_left_is_overrun(
    server: Server, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    """However many tokens come before the core hears of it: neither reported nor billed."""
    held: list[Any] = []
    server.core.hold()
    async with server.session() as session:
        body = {**CHAT, "stream": stream, "max_tokens": 900}
        asked = asyncio.create_task(session.post("/v1/chat/completions", json=body, headers=GATEWAY))
        await server.core_until(lambda: server.core.num_live == 1)
        server.core.release(5)
        await produced(server, 5)
        with monkeypatch.context() as patch:
            patch.setattr(server.services.bridge, "abort", held.append)
            if stream:
                (await asked).close()
            asked.cancel()
            await server.until(lambda: len(held) == 1)
            server.core.release(40)
            (generation,) = server.services.in_flight
            (choice,) = generation._choices.values()
            await server.until(lambda: choice.num_tokens + choice.num_overrun == 45)
        generation.abort()
    await idle(server)
    end = records(server)[-1]
    assert (end.kind, end.finish_reason) == ("end", "abort")
    assert (end.completion_tokens, end.overrun_tokens) == (5, 40)
    assert _figure(server, "engine_overrun_tokens_total") == 40


async def test_disconnect_without_stream_in_decode(server: Server) -> None:
    """Duty engine-2: nobody waits for the rest."""
    server.core.hold()
    async with server.session() as session:
        waiting = asyncio.create_task(session.post("/v1/chat/completions", json=CHAT, headers=GATEWAY))
        await server.core_until(lambda: server.core.num_live == 1)
        server.core.release(7)
        await produced(server, 7)
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
        await server.core_until(lambda: len(server.core.aborted) == 1)
    await idle(server)
    end = records(server)[-1]
    assert (end.finish_reason, end.completion_tokens) == ("abort", 7)


async def test_disconnect_aborts_all_choices(server: Server) -> None:
    async with server.session() as session:
        server.core.script(*[Script(silent=True)] * 3)
        waiting = asyncio.create_task(session.post("/v1/chat/completions", json={**CHAT, "n": 3}))
        await server.core_until(lambda: server.core.num_live == 3)
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
        await server.core_until(lambda: len(server.core.aborted) == 3)
    await idle(server)
    assert records(server)[-1].kind == "end"


async def test_many_disconnects_leave_nothing(server: Server) -> None:
    """Duty engine-2: neither requests nor records."""
    async with aiohttp.ClientSession(server.url, headers={"authorization": f"Bearer {API_KEY}"}) as session:

        async def one(number: int) -> None:
            body = {**CHAT, "stream": bool(number % 2), "max_tokens": 900}
            with contextlib.suppress(TimeoutError):
                async with (
                    asyncio.timeout(0.01 * (number % 7)),
                    session.post("/v1/chat/completions", json=body) as answer,
                ):
                    await answer.read()

        await asyncio.gather(*(one(number) for number in range(60)))
    await idle(server)
    kinds = [record.kind for record in records(server)]
    assert kinds.count("start") == kinds.count("end")


# -- the core fails ---------------------------------------------------------------------------------------


async def test_core_dies_before_the_first_byte(server: Server) -> None:
    server.core.script(*[Script(silent=True)] * 2)
    async with server.session() as session:
        waiting = [
            asyncio.create_task(session.post("/v1/chat/completions", json={**CHAT, "stream": stream}))
            for stream in (True, False)
        ]
        await server.core_until(lambda: server.core.num_live == 2)
        await server.kill_core()
        for answer in await asyncio.gather(*waiting):
            assert answer.status == 500
            document = await answer.json()
            assert document["error"]["code"] == "engine_error"
            assert "usage" not in document
        async with session.post("/v1/chat/completions", json=CHAT) as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (503, "engine_unavailable")
        await server.new_core(ready("epoch-2"))
        async with session.post("/v1/chat/completions", json={**CHAT, "max_tokens": 2}) as answer:
            assert (answer.status, answer.headers["x-engine-epoch"]) == (200, "epoch-2")
    assert [r.finish_reason for r in records(server) if r.kind == "end"] == ["error", "error", "length"]


@pytest.mark.parametrize("key", [API_KEY, INTERNAL_KEY])
async def test_core_dies_after_the_first_byte(server: Server, key: str) -> None:
    """One error event, no [DONE]; only the gateway learns the usage."""
    server.core.hold()
    async with server.session(key) as session:
        answer = await _open_stream(server, session, steps=4)
        await server.kill_core()
        tail = events((await answer.content.read()).decode())
    assert [event for event in tail if "error" in event] == tail[-1:]
    assert tail[-1]["error"]["code"] == "engine_error"
    if key == INTERNAL_KEY:
        assert tail[-1]["usage"]["completion_tokens"] == 4
    else:
        assert "usage" not in tail[-1]
    end = records(server)[-1]
    assert (end.kind, end.finish_reason, end.completion_tokens) == ("end", "error", 4)


async def test_failed_answer_carries_its_usage_for_the_gateway(server: Server) -> None:
    server.core.script(Script((70, 71, 72), finish="error", error_code="engine_error", error_message="boom"))
    async with server.session() as session, session.post("/v1/chat/completions", json=CHAT) as answer:
        document = await answer.json()
    assert (answer.status, document["error"]["message"]) == (500, "boom")
    assert document["usage"]["completion_tokens"] == 3


async def test_overload_is_503_with_retry_after(server: Server) -> None:
    script = Script((), finish="error", error_code="server_is_overloaded", retry_after_s=7.2)
    server.core.script(script, script)
    async with server.session() as session:
        for stream in (True, False):
            body = {**CHAT, "stream": stream}
            async with session.post("/v1/chat/completions", json=body) as answer:
                error = (await answer.json())["error"]
                assert (answer.status, answer.headers["retry-after"]) == (503, "7")
                assert (error["type"], error["code"]) == ("service_unavailable_error", "server_is_overloaded")


async def test_one_failed_choice_ends_the_request_once(server: Server) -> None:
    server.core.script(
        Script(tuple(range(70, 90)) * 30), Script((70, 71), finish="error", error_code="engine_error")
    )
    body = {**CHAT, "n": 2, "stream": True, "max_tokens": 900}
    async with server.session() as session, session.post("/v1/chat/completions", json=body) as answer:
        found = events(await answer.text())
    assert [event for event in found if "error" in event] == found[-1:]
    assert len(server.core.aborted) == 1
    await idle(server)


# -- accounting -------------------------------------------------------------------------------------------


async def test_end_is_journalled_before_the_caller_sees_it(server: Server, tmp_path: Path) -> None:
    """Read from another process's view, the file: at the last byte the record is there."""
    async with server.session() as session:
        for stream in (True, False):
            body = {**CHAT, "max_tokens": 3, "stream": stream}
            async with session.post("/v1/chat/completions", json=body, headers=GATEWAY) as answer:
                await answer.read()
            assert records(server)[-1].kind == "end"
    kinds = [record.kind for record in records(server)]
    assert kinds == ["start", "progress", "end"] * 2
    start, progress, end = records(server)[:3]
    assert (start.cached_tokens, start.completion_tokens) == (None, None)
    assert (progress.completion_tokens or 0) >= 1
    assert (end.completion_tokens, end.overrun_tokens, end.finish_reason) == (3, 0, "length")
    assert (end.prompt_tokens, end.epoch, end.queue_ms) == (start.prompt_tokens, "epoch-1", 1.5)
    assert end.e2e_ms is not None
    assert end.ttft_ms is not None
    assert end.e2e_ms >= end.ttft_ms > 0


async def test_what_cannot_be_journalled_is_not_begun(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway asks another replica; nothing reaches the core."""
    monkeypatch.setattr(server.services.journal, "write", _full_disk)
    async with server.session() as session:
        for stream in (False, True):
            async with session.post("/v1/chat/completions", json={**CHAT, "stream": stream}) as answer:
                assert (answer.status, answer.headers["retry-after"]) == (503, "1")
                assert (await answer.json())["error"]["code"] == "journal_unavailable"
        assert (server.core.seen, len(server.services.in_flight)) == ([], 0)
        async with session.get("/metrics") as metrics:
            assert 'engine_journal_errors_total{model_name="tiny",engine="0"} 2\n' in await metrics.text()


async def test_what_is_under_way_ends_without_the_journal(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with server.session() as session:
        server.core.hold()
        stream = await _open_stream(server, session, steps=2)
        monkeypatch.setattr(server.services.journal, "write", _full_disk)
        server.core.release(1000)
        assert events(await stream.text())[-1] == "[DONE]"
        await idle(server)


def _full_disk(record: Record) -> None:
    raise OSError(28, "No space left on device")


async def test_progress_every_64_tokens(server: Server) -> None:
    server.core.hold()
    server.core.script(Script(tuple(range(70, 90)) * 20, per_step=8))
    async with server.session() as session:
        opening = asyncio.create_task(session.post("/v1/chat/completions", json={**CHAT, "stream": True}))
        await server.core_until(lambda: server.core.num_live == 1)
        for step in range(1, 51):
            server.core.release(1)
            await produced(server, step * 8)
        server.core.release(1)
        await (await opening).read()
    counts = [r.completion_tokens or 0 for r in records(server)]
    assert all(0 <= after - before <= 64 for before, after in pairwise(counts))
    assert counts[-1] == 401


async def test_abort_by_the_gateway_ends_the_answer_with_its_usage(server: Server) -> None:
    server.core.hold()
    async with server.session() as session:
        answer = await _open_stream(server, session, steps=3)
        async with session.post("/internal/abort", json={"request_id": "gw-1"}) as reply:
            assert await reply.json() == {"aborted": True}
        tail = events((await answer.content.read()).decode())
        assert tail[-1] == "[DONE]"
        assert tail[-2]["choices"] == []
        assert tail[-2]["usage"]["completion_tokens"] == 3
        assert tail[-3]["choices"][0]["finish_reason"] == "abort"
        async with session.post("/internal/abort", json={"request_id": "gw-1"}) as reply:
            assert await reply.json() == {"aborted": False}


async def test_limits_of_the_gateway(server: Server) -> None:
    async with server.session() as session:
        headers = {"x-max-output-tokens": "3", "x-cache-salt": "0a0b", "x-request-class": "batch"}
        headers |= {"x-slo-ttft-ms": "900", "x-slo-tpot-ms": "40", "x-max-kv-fraction": "0.5"}
        async with session.post(
            "/v1/chat/completions", json={**CHAT, "max_tokens": 50}, headers=headers
        ) as answer:
            assert (await answer.json())["usage"]["completion_tokens"] == 3
        async with session.post(
            "/v1/chat/completions", json=CHAT, headers={"x-max-prompt-tokens": "5"}
        ) as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (400, "context_length_exceeded")
        length = str(len(server.core.seen[0].prompt_token_ids))
        async with session.post(
            "/v1/chat/completions", json={**CHAT, "max_tokens": 1}, headers={"x-max-prompt-tokens": length}
        ) as answer:
            assert answer.status == 200, "as long as it may be"
        body = {**CHAT, "max_tokens": 1, "cache_salt": "mine"}
        async with session.post("/v1/chat/completions", json=body, headers=headers) as answer:
            assert answer.status == 200
    first, _, second = server.core.seen
    assert (first.cache_salt, first.request_class) == (b"\x0a\x0b", "batch")
    assert (first.ttft_ms, first.tpot_ms, first.max_kv_fraction) == (900.0, 40.0, 0.5)
    assert second.cache_salt not in (first.cache_salt, b"", b"mine")


async def test_one_write_per_step(server: Server) -> None:
    """Two choices, three events: one chunk of the response for each step of the core."""
    server.core.hold()
    async with server.session() as session:
        answer = await _open_stream(server, session, steps=1, n=2)
        first = (await answer.content.readchunk())[0]
        assert len(events(first.decode())) == 4  # role and text of each choice
        server.core.release(1)
        assert len(events((await answer.content.readchunk())[0].decode())) == 2
        answer.close()


async def _open_stream(
    server: Server, session: aiohttp.ClientSession, *, steps: int, n: int = 1
) -> aiohttp.ClientResponse:
    """A stream that has delivered exactly `steps` tokens per choice (the core is held)."""
    body = {**CHAT, "stream": True, "n": n, "max_tokens": 900, "stream_options": {"include_usage": True}}
    server.core.script(*[Script(tuple(range(70, 90)) * 50)] * n)
    opening = asyncio.create_task(session.post("/v1/chat/completions", json=body, headers=GATEWAY))
    await server.core_until(lambda: server.core.num_live == n)
    server.core.release(steps)
    answer = await opening
    assert answer.status == 200
    await produced(server, steps * n)
    return answer


def _disconnects(server: Server) -> int:
    return _figure(server, "engine_client_disconnects_total")


def _figure(server: Server, name: str) -> int:
    text = server.services.metrics.render(server.services.bridge.load, None)
    line = next(x for x in text.splitlines() if x.startswith(f"{name}{{"))
    return int(line.split()[-1])
