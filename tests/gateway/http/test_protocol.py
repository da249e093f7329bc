"""The socket as the gateway serves it: heads, trailers and waiting are bounded before any key is looked at."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import pytest
import uvicorn

from gateway.http import protocol
from gateway.http.protocol import HEAD_BYTES_MAX
from gateway.serving import IDLE_CONNECTION_S, server_config
from gateway.settings import SecuritySettings, Settings

END = b"\r\n\r\n"
HEAD = b"POST / HTTP/1.1\r\nhost: x\r\n"
LINE = b"x-filler: " + b"f" * 1000 + b"\r\n"


async def _app(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
    """Answers with the names of the headers, once the body is there."""
    if scope["type"] == "lifespan":
        return
    while (await receive()).get("more_body"):
        pass
    names = b" ".join(sorted({name for name, _ in scope["headers"]}))
    length = (b"content-length", str(len(names)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": names})


@pytest.fixture
async def port() -> AsyncIterator[int]:
    config = server_config(_app, Settings(security=SecuritySettings(key_pepper="a pepper of the tests")))
    config.port, config.lifespan = 0, "off"
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  # uvicorn has no event
        await asyncio.sleep(0.005)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await serving


async def _sent(port: int, *pieces: bytes) -> bytes:
    """All that is answered until the server ends the connection, or says nothing more after a good answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        return await asyncio.wait_for(reader.read(), 60)
    except ConnectionError:  # ended while it was being written to: what it said first is lost with it
        return b""
    finally:
        writer.close()


def _status(answer: bytes) -> int:
    """Of a refusal, which has the shape of every other."""
    head, _, body = answer.partition(END)
    assert set(json.loads(body)["error"]) == {"message", "type", "param", "code"}
    return int(head.split()[1])


@pytest.mark.parametrize(
    "pieces",
    [
        [HEAD, LINE * 70, END],
        [HEAD + LINE * 70 + END],
        [HEAD, b"x-one: " + b"f" * 8 * HEAD_BYTES_MAX],
        [b"GET /" + b"p" * 8 * HEAD_BYTES_MAX],
    ],
)
async def test_a_head_without_end_is_refused(port: int, pieces: list[bytes]) -> None:
    answer = await _sent(port, *pieces)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 431 ")
    assert b"200 OK" not in answer


async def test_a_head_just_too_large_is_told_so(port: int) -> None:
    """Sent slowly enough to be read to its end, so that the answer is not lost."""
    assert _status(await _sent(port, HEAD, *([LINE] * (HEAD_BYTES_MAX // len(LINE) + 3)))) == 431


async def test_a_large_head_within_the_bound_is_read(port: int) -> None:
    answer = await _sent(port, HEAD + LINE * 50 + b"connection: close" + END)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"x-filler" in answer
    assert b"server:" not in answer.lower()


async def test_trailers_are_no_headers_and_are_bounded(port: int) -> None:
    chunked = HEAD + b"connection: close\r\ntransfer-encoding: chunked" + END + b"1\r\nb\r\n0\r\n"
    answer = await _sent(port, chunked + b"authorization: Bearer late" + END)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"authorization" not in answer
    answer = await _sent(port, chunked, LINE * 70, LINE * 70)
    assert b"200 OK" not in answer


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\x01",
        HEAD + b"content-length: 1\r\ntransfer-encoding: chunked" + END + b"0" + END,
        HEAD + b"content-length: 1\r\ncontent-length: 2" + END + b"ab",
        HEAD + b"transfer-encoding: chunked, identity" + END + b"0" + END,
        HEAD + b"x-bad : 1" + END,
        HEAD + b"x-nul: a\0b" + END,
    ],
)
async def test_what_two_servers_might_read_differently_is_refused(port: int, raw: bytes) -> None:
    assert _status(await _sent(port, raw)) == 400


@pytest.mark.parametrize("begun", [b"", b"\r\n", HEAD])
async def test_who_never_ends_a_head_is_let_go(
    port: int, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(protocol, "HEAD_TIMEOUT_S", 0.05)
    assert await _sent(port, begun) == b""


async def test_drips_after_an_answer_do_not_hold_the_connection(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte ends uvicorn's own timer; ours goes on until a whole head has come."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for timeout in (protocol.HEAD_TIMEOUT_S, 0.1 - IDLE_CONNECTION_S):
        monkeypatch.setattr(protocol, "HEAD_TIMEOUT_S", timeout)
        writer.write(HEAD + b"content-length: 0" + END)
        assert b"200 OK" in await reader.readuntil(END)
    writer.write(b"\r\n" + HEAD)
    rest = await asyncio.wait_for(reader.read(), 60)
    assert b"HTTP/1.1" not in rest
    writer.close()
