"""The upstream client against a real server: reuse, replacement of dead connections, and clean ends."""

from __future__ import annotations

import asyncio

import pytest

from gateway.upstream.client import ConnectFailed, ConnectionLost, StaleConnection, UpstreamClient
from tests.fakes.engine import FakeEngine
from tests.fakes.script import Script
from tests.gateway.upstream.orders import headers

BODY = b'{"model":"fake-model","messages":[{"role":"user","content":"a b c"}],"stream":true}'


async def test_streams_to_the_end(engine: FakeEngine, client: UpstreamClient) -> None:
    reply = await client.post(f"{engine.url}/v1/chat/completions", headers(engine), BODY)
    assert (reply.status, reply.is_stream) == (200, True)
    raw = await reply.read_whole()
    assert raw.endswith(b"data: [DONE]\n\n")


async def test_a_drained_stream_leaves_a_connection_for_the_next(
    engine: FakeEngine, client: UpstreamClient
) -> None:
    for _ in range(3):
        reply = await client.post(f"{engine.url}/v1/chat/completions", headers(engine), BODY)
        while b"[DONE]" not in await reply.read_some():
            pass
        reply.run_out()
        await engine.wait_for(lambda reply=reply: reply.is_at_end)  # type: ignore[misc]
    assert engine.connections_made == 1


async def test_a_dead_kept_connection_is_told_from_a_dead_server(client: UpstreamClient) -> None:
    """A server that answers the first request and cuts the connection when it is used again."""
    turns = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for turn in (1, 2):
            await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(2)
            turns.append(turn)
            if turn == 2:
                writer.transport.abort()
                return
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
            if len(turns) == 3:
                writer.close()
                return

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with server:
        first = await client.post(url, {}, b"{}")
        assert await first.read_whole() == b"{}"
        with pytest.raises(StaleConnection):
            await client.post(url, {}, b"{}")
        again = await client.post(url, {}, b"{}", fresh=True)
        assert await again.read_whole() == b"{}"
    assert turns == [1, 2, 1]


async def test_a_fresh_connection_that_dies_is_no_stale_one(
    engine: FakeEngine, client: UpstreamClient
) -> None:
    engine.script(Script(cut_before_answer=True))
    with pytest.raises(ConnectionLost) as caught:
        await client.post(f"{engine.url}/v1/chat/completions", headers(engine), BODY)
    assert not isinstance(caught.value, StaleConnection)
    assert len(engine.requests) == 1


async def test_an_engine_cannot_send_a_request_elsewhere(engine: FakeEngine, client: UpstreamClient) -> None:
    """A 307 would carry the prompt to whatever address the engine names, the machine's own metadata for one."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            f"HTTP/1.1 307 Go\r\nlocation: {engine.url}/v1/models\r\ncontent-length: 0\r\n\r\n".encode()
        )
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        reply = await client.post(url, {}, b"{}", fresh=True)
        assert reply.status == 307
        await reply.read_whole()
        assert (await client.fetch("GET", url, {}, None, 5.0))[0] == 307
    assert engine.connections_made == 0


async def test_nobody_listens(client: UpstreamClient) -> None:
    with pytest.raises(ConnectFailed):
        await client.post("http://127.0.0.1:9/", {}, b"{}")


async def test_a_cut_stream_is_a_lost_connection(engine: FakeEngine, client: UpstreamClient) -> None:
    engine.script(Script(die_after=2))
    reply = await client.post(f"{engine.url}/v1/chat/completions", headers(engine), BODY)
    with pytest.raises(ConnectionLost):
        await reply.read_whole()


async def test_close_tells_the_engine(engine: FakeEngine, client: UpstreamClient) -> None:
    engine.script(Script(hang_after=1))
    reply = await client.post(f"{engine.url}/v1/chat/completions", headers(engine), BODY)
    await reply.read_some()
    reply.close()
    await engine.wait_for(lambda: engine.count("cancelled") == 1)
    assert engine.running == 0
