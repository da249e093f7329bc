"""A caller that reads too slowly ends its own stream, in time and in order. (How much may wait: test_bridge.)"""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

from engine.server.journal import Record
from engine.server.journal_reader import read_page
from tests.engine.server.conftest import INTERNAL_KEY, MODEL, Server

CHOICES = 8
BODY: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "The lamps"}],
    "stream": True,
    "n": CHOICES,
    "max_tokens": 900,
    "logprobs": True,
    "top_logprobs": 20,
}


def ask(body: dict[str, Any], key: str = INTERNAL_KEY) -> bytes:
    raw = json.dumps(body).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n"
    return head.encode() + b"content-length: %d\r\n\r\n" % len(raw) + raw


def slow_caller(port: int, body: dict[str, Any]) -> socket.socket:
    """Asks, and reads nothing."""
    caller = socket.socket()
    caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    caller.connect(("127.0.0.1", port))
    caller.sendall(ask(body))
    return caller


async def read_to_the_end(caller: socket.socket) -> list[Any]:
    """The events, once the server has written the last chunk."""
    caller.setblocking(False)
    loop, raw = asyncio.get_running_loop(), b""
    async with asyncio.timeout(60):
        while not raw.endswith(b"0\r\n\r\n"):
            data = await loop.sock_recv(caller, 1 << 20)
            assert data, "cut off"
            raw += data
    body, rest = b"", raw.partition(b"\r\n\r\n")[2]
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body, rest = body + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return [json.loads(part.removeprefix(b"data: ")) for part in body.split(b"\n\n") if part]


def records(server: Server) -> list[Record]:
    assert server.services.journal_dir is not None
    return read_page(server.services.journal_dir, "", 10_000).records


async def test_its_stream_ends_with_an_error_behind_what_was_written(server: Server) -> None:
    with slow_caller(server.port, BODY) as caller:
        await server.core_until(lambda: len(server.core.aborted) == CHOICES)
        await server.until(lambda: server.services.bridge.num_live == 0)
        *shown, last = await read_to_the_end(caller)
    assert last["error"]["code"] == "reader_too_slow"
    tokens = sum(len((c["logprobs"] or {"content": []})["content"]) for e in shown for c in e["choices"])
    assert last["usage"]["completion_tokens"] == tokens > 0
    await server.until(lambda: not server.services.in_flight)
    end = records(server)[-1]
    assert (end.kind, end.finish_reason, end.completion_tokens) == ("end", "abort", tokens)
    assert (end.overrun_tokens or 0) > 100, "what was not written is nobody's to pay"
    async with server.session() as session, session.get("/metrics") as metrics:
        assert 'engine_slow_readers_total{model_name="tiny",engine="0"} 1\n' in await metrics.text()


async def test_others_do_not_notice(server: Server) -> None:
    with slow_caller(server.port, BODY):
        async with server.session() as session:
            for stream in (True, False):
                body = {**BODY, "n": 1, "stream": stream, "max_tokens": 50}
                async with session.post("/v1/chat/completions", json=body) as answer:
                    text = await answer.text()
                    assert text.endswith("data: [DONE]\n\n") or "usage" in json.loads(text)
        await server.core_until(lambda: len(server.core.aborted) == CHOICES)


async def test_who_only_pauses_gets_everything(server: Server) -> None:
    """Less waits than may."""
    with slow_caller(server.port, {**BODY, "n": 1, "max_tokens": 400}) as caller:
        await server.core_until(lambda: bool(server.core.seen) and server.core.num_live == 0)
        events = await read_to_the_end_of_a_whole(caller)
    assert events == 400


async def read_to_the_end_of_a_whole(caller: socket.socket) -> int:
    """Tokens of a complete stream."""
    caller.setblocking(False)
    loop, raw = asyncio.get_running_loop(), b""
    async with asyncio.timeout(60):
        while b"data: [DONE]" not in raw:
            raw += await loop.sock_recv(caller, 1 << 20)
    return raw.count(b'"top_logprobs":[{')
