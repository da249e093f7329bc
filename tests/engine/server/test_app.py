"""The edge: unknown routes, wrong methods, large bodies, and bugs that become one answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from engine.server import exchange as exchange_module
from tests.engine.server.conftest import API_KEY, MODEL, Server

CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
HEADERS = {"content-type": "application/json"}


async def test_unknown_route_and_method(server: Server) -> None:
    async with server.session() as session:
        async with session.get("/v1/nothing") as answer:
            assert (answer.status, (await answer.json())["error"]["type"]) == (404, "invalid_request_error")
        async with session.get("/v1/chat/completions") as answer:
            assert (answer.status, answer.headers["allow"]) == (405, "POST")
            assert sorted((await answer.json())["error"]) == ["code", "message", "param", "type"]


async def test_headers_on_every_answer(server: Server) -> None:
    async with server.session() as session:
        headers = {"x-request-id": "req-mine"}
        for method, path, body in (
            ("GET", "/health", None),
            ("GET", "/nowhere", None),
            ("POST", "/v1/chat/completions", CHAT),
            ("POST", "/v1/chat/completions", {**CHAT, "stream": True}),
            ("POST", "/v1/chat/completions", {**CHAT, "model": "other"}),
        ):
            async with session.request(method, path, json=body, headers=headers) as answer:
                await answer.read()
                assert answer.headers["x-request-id"] == "req-mine"
                assert answer.headers["x-engine-epoch"] == "epoch-1"
                for name in ("running", "waiting", "kv-usage"):
                    assert f"x-engine-{name}" in answer.headers
    async with server.session(None) as session, session.get("/v1/models") as answer:
        assert answer.status == 401
        assert answer.headers["x-request-id"].startswith("req-")


async def test_head_is_get_without_a_body(server: Server) -> None:
    for key, path, status in (
        (None, "/health", 200),
        (None, "/v1/models", 401),
        (API_KEY, "/v1/models", 200),
    ):
        async with server.session(key) as session, session.head(path) as answer:
            assert (answer.status, await answer.read()) == (status, b"")


async def test_announced_bodies_are_refused_unread(server: Server) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    head = f"POST /v1/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {API_KEY}\r\n"
    writer.write(f"{head}content-length: 99999999999\r\n\r\n".encode())
    assert (await reader.readline()).split()[1] == b"413"
    writer.close()


async def test_ignored_fields_are_named(server: Server) -> None:
    async with server.session(API_KEY) as session:
        body = {**CHAT, "user": "u", "wünsche": 1, "a\r\nb": 2}
        async with session.post("/v1/chat/completions", json=body) as answer:
            assert answer.status == 200
            assert answer.headers["x-tollway-ignored"] == "user"


@pytest.mark.parametrize("announced", [True, False])
async def test_body_limit(server: Server, monkeypatch: pytest.MonkeyPatch, announced: bool) -> None:
    """To the byte, whether the length is told before (content-length) or only seen (chunks)."""
    most = json.dumps({"model": MODEL, "prompt": "hi", "max_tokens": 1, "user": "x" * 900}).encode()
    monkeypatch.setattr(exchange_module, "MAX_BODY_BYTES", len(most))
    async with server.session(API_KEY) as session:
        for raw, status in ((most, 200), (most + b" ", 413), (most + b" " * 100_000, 413)):
            data = raw if announced else in_pieces(raw)
            async with session.post("/v1/completions", data=data, headers=HEADERS) as answer:
                assert answer.status == status
                if status == 413:
                    assert (await answer.json())["error"]["type"] == "invalid_request_error"


async def in_pieces(raw: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(raw), 300):
        yield raw[start : start + 300]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_bug_fails_one_request(server: Server, monkeypatch: pytest.MonkeyPatch, stream: bool) -> None:
    """An exception of ours is a 500 that tells nothing, and the engine goes on."""
    make = server.services.text.tokenizer.token_bytes

    def broken(token_id: int) -> bytes:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(server.services.text.tokenizer, "token_bytes", broken)
    async with server.session(API_KEY) as session:
        async with session.post("/v1/chat/completions", json={**CHAT, "stream": stream}) as answer:
            assert answer.status == 500
            assert "secret" not in await answer.text()
        monkeypatch.setattr(server.services.text.tokenizer, "token_bytes", make)
        async with session.post("/v1/chat/completions", json=CHAT) as answer:
            assert answer.status == 200
        async with session.get("/metrics") as answer:
            assert "engine_internal_errors_total{" in await answer.text()
    await server.core_until(lambda: server.core.num_live == 0)
    await server.until(lambda: server.services.bridge.num_live == 0)
