"""Bounds of a connection, tried over raw sockets: late, endless, unread, too many, or no HTTP at all."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from engine.server import connection as connection_module
from engine.server.connection import HEAD_BYTES
from tests.engine.server.conftest import API_KEY, MODEL, Server, running_server

HEAD = f"POST /v1/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {API_KEY}\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(server: Server, sent: str = "") -> Streams:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(sent.encode())
    return reader, writer


async def answer(streams: Streams) -> tuple[int, dict[str, Any]]:
    """Status and error of an answer after which the server closes."""
    reader, writer = streams
    head, _, body = (await asyncio.wait_for(reader.read(), 60)).partition(b"\r\n\r\n")
    writer.close()
    error = json.loads(body)["error"]
    assert sorted(error) == ["code", "message", "param", "type"]
    return int(head.split()[1]), error


async def is_cut(streams: Streams) -> bool:
    """True when the connection ends without a byte."""
    reader, writer = streams
    try:
        return await asyncio.wait_for(reader.read(), 60) == b""
    except ConnectionError:
        return True
    finally:
        writer.close()


async def test_late_requests(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing, half a head, half a body; and half a second request on a connection that served one."""
    monkeypatch.setattr(connection_module, "REQUEST_S", 0.2)
    for sent in ("", "GET /heal", HEAD + 'content-length: 100\r\n\r\n{"model"'):
        assert await is_cut(await connect(server, sent))
    monkeypatch.setattr(connection_module, "REQUEST_S", 1.0)  # time enough for the first
    reader, writer = await connect(server, "GET /health HTTP/1.1\r\nhost: x\r\n\r\nGET /he")
    assert (await asyncio.wait_for(reader.read(), 60)).count(b"HTTP/1.1 200") == 1
    writer.close()


async def test_a_slow_answer_is_not_a_late_request(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the next request has begun to arrive behind it."""
    monkeypatch.setattr(connection_module, "REQUEST_S", 0.5)
    body = json.dumps({"model": MODEL, "prompt": "hi", "max_tokens": 2})
    server.core.hold()
    reader, writer = await connect(
        server, f"{HEAD}content-length: {len(body)}\r\n\r\n{body}GET /health HTTP/1.1\r\n"
    )
    await server.core_until(lambda: server.core.num_live == 1)
    await asyncio.sleep(1.0)
    server.core.release(10)
    assert (await reader.readline()).split()[1] == b"200"
    writer.close()


async def test_endless_heads(server: Server) -> None:
    """Many headers, or one."""
    for piece in (b"x: y\r\n" * 2000, b"x" * 12_000):
        streams = await connect(server, "GET /health HTTP/1.1\r\nfirst: ")
        answering = asyncio.create_task(answer(streams))
        while not answering.done():
            streams[1].write(piece)
            await asyncio.sleep(0.01)
        assert (await answering)[0] == 431


async def test_large_heads_at_once(server: Server) -> None:
    """In one piece, before anybody could look at how much there is: a header, many of them, or the target."""
    more = HEAD_BYTES + 100
    for head in ("GET /health HTTP/1.1\r\nx: " + "x" * more, "GET /health?" + "x" * more + " HTTP/1.1"):
        assert (await answer(await connect(server, head + "\r\nhost: x\r\n\r\n")))[0] == 431
    many = "".join(f"x-{number}: {'x' * 100}\r\n" for number in range(more // 100))
    assert (await answer(await connect(server, f"GET /health HTTP/1.1\r\n{many}\r\n")))[0] == 431
    fits = "GET /health HTTP/1.1\r\nconnection: close\r\nx: " + "x" * (HEAD_BYTES - 100)
    reader, writer = await connect(server, fits + "\r\n\r\n")
    assert (await asyncio.wait_for(reader.read(), 60)).startswith(b"HTTP/1.1 200")
    writer.close()


async def test_trailers_are_no_headers(server: Server) -> None:
    """Of the second of two requests, too, which is looked at only when it has arrived to its end."""
    body = json.dumps({"model": MODEL, "prompt": "hi", "max_tokens": 2})
    chunked = f"transfer-encoding: chunked\r\n\r\n{len(body):x}\r\n{body}\r\n0\r\n"
    trailers = "x-request-id: late\r\nauthorization: Bearer wrong\r\n\r\n"
    server.core.hold()
    reader, writer = await connect(server, (HEAD + chunked + trailers) * 2)
    await server.core_until(lambda: server.core.num_live == 1)
    server.core.release(10)
    text = b""
    while text.count(b'"usage"') < 2:
        text += await asyncio.wait_for(reader.read(1 << 16), 60)
    assert text.count(b"HTTP/1.1 200") == 2
    assert b"late" not in text
    writer.close()


async def test_nothing_is_written_into_an_answer(server: Server) -> None:
    """What is no HTTP, behind a request whose answer is on its way, cuts the connection."""
    body = json.dumps({"model": MODEL, "prompt": "hi", "max_tokens": 900, "stream": True})
    server.core.hold()
    reader, writer = await connect(server, f"{HEAD}content-length: {len(body)}\r\n\r\n{body}")
    await server.core_until(lambda: server.core.num_live == 1)
    server.core.release(2)
    text = await asyncio.wait_for(reader.readuntil(b"data: "), 60)
    writer.write(b"\x00 no request\r\n\r\n")
    await server.core_until(lambda: len(server.core.aborted) == 1)
    with contextlib.suppress(ConnectionError):
        text += await asyncio.wait_for(reader.read(), 60)
    writer.close()
    assert text.count(b"HTTP/1.1") == 1
    assert b"invalid_request_error" not in text


async def test_endless_bodies(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a refusal the rest is read, so that the caller sees it, but not for ever."""
    monkeypatch.setattr(connection_module, "MESSAGE_BYTES", 1 << 20)
    head = "POST /tokenize HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    reader, writer = await connect(server, head)
    assert (await reader.readline()).split()[1] == b"401"
    sent = 0
    while not writer.is_closing():
        writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        sent += 65536
        await asyncio.sleep(0.001)
    assert 1 << 20 <= sent < 1 << 26


async def test_unread_answers(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request of a caller that does not read ends as if the caller had gone."""
    monkeypatch.setattr(connection_module, "STALL_S", 0.3)
    body = json.dumps(
        {"model": MODEL, "prompt": "hi", "max_tokens": 1000, "n": 64, "stream": True, "logprobs": 5}
    )
    with socket.socket() as caller:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        caller.connect(("127.0.0.1", server.port))
        caller.sendall(f"{HEAD}content-length: {len(body)}\r\n\r\n{body}".encode())
        await server.core_until(lambda: len(server.core.aborted) == 64)
        await server.until(lambda: not server.services.in_flight and server.services.bridge.num_live == 0)
    async with server.session() as session, session.get("/metrics") as metrics:
        assert 'engine_client_disconnects_total{model_name="tiny",engine="0"} 1\n' in await metrics.text()


async def test_too_many(model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "MAX_CONNECTIONS", 3)
    async with running_server(model_dir, tmp_path) as server:
        held = [await connect(server) for _ in range(3)]
        status, error = await answer(await connect(server))
        assert (status, error["code"]) == (503, "server_is_overloaded")
        for _, writer in held:
            writer.close()
        await server.until(lambda: not server.process._server.server_state.connections)
        async with server.session() as session, session.get("/health") as healthy:
            assert healthy.status == 200


async def test_no_http(server: Server) -> None:
    for sent in (
        "\x16\x03\x01hello\r\n\r\n",
        "GET nowhere HTTP/1.1\r\n\r\n",
        HEAD + "content-length: -1\r\n\r\n",
    ):
        status, error = await answer(await connect(server, sent))
        assert (status, error["type"]) == (400, "invalid_request_error")


async def test_the_kernel_watches_callers(server: Server) -> None:
    _, writer = await connect(server)
    await server.until(lambda: len(server.process._server.server_state.connections) == 1)
    (protocol,) = server.process._server.server_state.connections
    assert isinstance(protocol, connection_module.Connection)
    accepted = protocol.transport.get_extra_info("socket")
    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000
    assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    writer.close()
