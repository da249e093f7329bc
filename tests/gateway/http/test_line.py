"""What our server can do beyond ASGI, over a real socket: write without waiting, and notice who leaves."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from pydantic import SecretStr

from gateway.http.line import LINE, HeldHead, Line
from gateway.serving import server_config
from gateway.settings import SecuritySettings, Settings

REQUEST = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"
HEADERS = [(b"content-type", b"text/event-stream")]
PIECE = b"p" * 10_000
PIECES_MAX = 10_000
WAIT_S = 30


@asynccontextmanager
async def served(app: Callable[[Line, Any], Any], reads: bool = True) -> AsyncIterator[int]:
    """`app(line, send)` is called once the answer's head is sent, and the body read unless it is left to the app."""

    async def asgi(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if reads:
            await receive()
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await app(scope["extensions"][LINE], send)

    config = server_config(
        asgi, Settings(security=SecuritySettings(key_pepper=SecretStr("a pepper of the tests")))
    )
    config.port, config.lifespan = 0, "off"
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  # uvicorn has no event
        await asyncio.sleep(0.005)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await serving


async def test_pieces_are_chunks_of_the_body() -> None:
    async def app(line: Line, send: Any) -> None:
        assert line.write(b"abc")
        assert line.write(b"")
        assert line.write(b"de")
        await send({"type": "http.response.body", "body": b"f"})

    async with served(app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        raw = await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), WAIT_S)
        writer.close()
    assert raw.partition(b"\r\n\r\n")[2] == b"3\r\nabc\r\n2\r\nde\r\n1\r\nf\r\n0\r\n\r\n"


async def test_nothing_is_written_to_who_does_not_read() -> None:
    """A reader that stops is a matter of its socket's buffers, not of our memory."""
    written: list[int] = []

    async def app(line: Line, send: Any) -> None:
        while line.write(PIECE):
            written.append(len(PIECE))
            assert len(written) < PIECES_MAX, "it never says that the reader is slow"
        await send({"type": "http.response.body", "body": b"end"})

    async with served(app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        raw = await _all(reader)
        writer.close()
    assert raw.count(PIECE) == len(written) > 0
    assert raw.endswith(b"3\r\nend\r\n0\r\n\r\n")


async def test_who_leaves_is_noticed_once_and_written_to_for_nothing() -> None:
    noticed: list[str] = []
    gone = asyncio.Event()

    async def app(line: Line, send: Any) -> None:
        def on_gone() -> None:
            noticed.append("gone")
            gone.set()

        line.watch(on_gone)
        assert line.write(b"a")
        await asyncio.wait_for(gone.wait(), WAIT_S)
        assert line.write(b"b")
        line.watch(lambda: noticed.append("had gone before"))
        line.unwatch()
        await send({"type": "http.response.body", "body": b""})

    async with served(app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        await asyncio.wait_for(reader.readuntil(b"a\r\n"), WAIT_S)
        writer.transport.abort()
        await asyncio.wait_for(gone.wait(), WAIT_S)
    assert noticed == ["gone", "had gone before"]


async def test_the_end_of_a_whole_answer_is_no_leaving() -> None:
    noticed: list[str] = []

    async def app(line: Line, send: Any) -> None:
        line.watch(lambda: noticed.append("gone"))
        await send({"type": "http.response.body", "body": b"all"})

    async with served(app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), WAIT_S)
        writer.transport.abort()
    assert noticed == []


async def _all(reader: asyncio.StreamReader) -> bytes:
    """To the last chunk; a piece may look like its beginning."""
    raw = b""
    async with asyncio.timeout(WAIT_S):
        while not raw.endswith(b"\r\n0\r\n\r\n"):
            raw += await reader.read(1 << 16)
    return raw


async def test_a_head_goes_out_with_what_follows_at_once_and_alone_if_nothing_does() -> None:
    """One packet for the head and the first of the body; but nobody waits for a head because a body takes its time."""
    goes_on = asyncio.Event()

    async def app(line: Line, send: Any) -> None:
        if line.take_body() == b"now":
            await send({"type": "http.response.body", "body": b"abc", "more_body": True})
        await goes_on.wait()
        await send({"type": "http.response.body", "body": b"end"})

    async with served(app, reads=False) as port:
        arrived = []
        for body in (b"now", b"..."):
            goes_on.clear()
            with socket.create_connection(("127.0.0.1", port)) as peer:
                peer.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_sendall(peer, REQUEST.replace(b"length: 0", b"length: 3") + body)
                first = await asyncio.wait_for(loop.sock_recv(peer, 65536), WAIT_S)
                goes_on.set()
                arrived.append(first.partition(b"\r\n\r\n")[2])
                rest = b""
                while not rest.endswith(b"0\r\n\r\n"):
                    rest += await asyncio.wait_for(loop.sock_recv(peer, 65536), WAIT_S)
        assert arrived == [b"3\r\nabc\r\n", b""]


async def test_a_body_that_has_come_is_taken_whole_and_only_once() -> None:
    taken: list[bytes | None] = []

    async def app(line: Line, send: Any) -> None:
        taken.append(line.take_body())
        taken.append(line.take_body())
        await send({"type": "http.response.body", "body": b"end"})

    async with served(app, reads=False) as port:
        for pieces in ((b"abc",), (b"a",)):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(REQUEST.replace(b"length: 0", b"length: 3") + pieces[0])
            await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), WAIT_S)
            writer.close()
    assert taken == [b"abc", b"", None, None]


class Wire:
    """A cycle with its transport, which notes each write."""

    def __init__(self) -> None:
        self.transport: Any = self
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)


async def test_a_head_and_what_follows_are_one_write() -> None:
    wire = Wire()
    held = HeldHead(wire, asyncio.get_running_loop())  # type: ignore[arg-type]  # has what it uses
    held.write(b"head ")
    held.write(b"body")
    assert wire.written == [b"head body"]
    assert wire.transport is wire
    await asyncio.sleep(0)
    assert wire.written == [b"head body"]
