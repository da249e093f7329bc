"""A connection against a server that says exactly what it is told: bodies of every kind, and ends of every kind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from gateway.settings import UpstreamSettings
from gateway.upstream.client import ConnectFailed, ConnectionLost, UpstreamClient
from gateway.upstream.connection import HEAD_BYTES_MAX, READ_BUFFER_BYTES
from tests.patience import LONG_S

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
WAIT_S = 30

Talk = Callable[[asyncio.StreamWriter, int], Awaitable[None]]


class Peer:
    """Answers each request with what `talk(writer, number of the request)` writes."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self.connections = 0
        self.asked = 0
        self.heads: list[bytes] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.heads.append(head)
                await reader.readexactly(2)
                self.asked += 1
                await self._talk(writer, self.asked)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def peer(*pieces: bytes, talk: Talk | None = None) -> AsyncIterator[Peer]:
    async def say(writer: asyncio.StreamWriter, number: int) -> None:
        writer.writelines(pieces)

    made = Peer(talk or say)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x"
    async with server:
        yield made


async def cut(writer: asyncio.StreamWriter) -> None:
    await writer.drain()
    writer.transport.abort()
    raise ConnectionResetError


async def wait_for(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110  # a server's state has no event
            await asyncio.sleep(0.005)


async def test_what_arrives_together_is_given_together(client: UpstreamClient) -> None:
    taken: list[bytes] = []

    def take(data: bytes) -> bool:
        taken.append(data)
        return True

    async with peer(CHUNKED + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n") as server:
        for _ in range(2):
            reply = await client.post(server.url, {}, b"{}")
            assert not await reply.pass_on(take)
            assert reply.is_at_end
    assert taken == [b"abcde"] * 2
    assert server.connections == 1, "it was free at the end of the first answer"


async def test_who_stops_may_read_on_and_be_given_more(client: UpstreamClient) -> None:
    go_on = asyncio.Event()

    async def talk(writer: asyncio.StreamWriter, number: int) -> None:
        writer.write(CHUNKED + b"1\r\na\r\n")
        await go_on.wait()
        writer.write(b"1\r\nb\r\n0\r\n\r\n")

    taken: list[bytes] = []

    def take(data: bytes) -> bool:
        taken.append(data)
        go_on.set()
        return False

    async with peer(talk=talk) as server:
        reply = await client.post(server.url, {}, b"{}")
        assert await reply.pass_on(take)
        assert await reply.read_some() == b"b"
        assert not await reply.pass_on(take)
    assert taken == [b"a"]


async def test_what_was_taken_comes_before_the_loss(client: UpstreamClient) -> None:
    """Whoever stopped over the last bytes is told of them; the loss is told to who asks for more."""

    async def talk(writer: asyncio.StreamWriter, number: int) -> None:
        writer.write(CHUNKED + b"1\r\na\r\n")
        await cut(writer)

    async with peer(talk=talk) as server:
        reply = await client.post(server.url, {}, b"{}")
        assert await reply.pass_on(lambda data: False)
        with pytest.raises(ConnectionLost):
            await reply.pass_on(lambda data: False)
        with pytest.raises(ConnectionLost):
            await reply.read_some()


async def test_an_error_of_the_taker_is_its_own(client: UpstreamClient) -> None:
    class Bug(Exception):
        pass

    def take(data: bytes) -> bool:
        raise Bug

    quiet = asyncio.get_running_loop()
    quiet.set_exception_handler(lambda loop, context: None)
    begin = asyncio.Event()

    async def talk(writer: asyncio.StreamWriter, number: int) -> None:
        writer.write(CHUNKED)
        await begin.wait()
        writer.write(b"1\r\na\r\n")

    async with peer(talk=talk) as server:
        reply = await client.post(server.url, {}, b"{}")
        passing = asyncio.create_task(reply.pass_on(take))
        begin.set()
        with pytest.raises(Bug):
            await passing


async def test_a_body_without_a_length_ends_with_the_connection(client: UpstreamClient) -> None:
    async def talk(writer: asyncio.StreamWriter, number: int) -> None:
        writer.write(OK + b"\r\nall of it")
        await writer.drain()
        writer.close()

    async with peer(talk=talk) as server:
        reply = await client.post(server.url, {}, b"{}")
        assert await reply.read_whole() == b"all of it"


async def test_a_word_in_between_is_no_answer(client: UpstreamClient) -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
    async with peer(early + OK + b"x-a: 1\r\nx-a: 2\r\ncontent-length: 2\r\n\r\nok") as server:
        reply = await client.post(server.url, {}, b"{}")
        assert (reply.status, reply.headers) == (200, {"x-a": "1, 2", "content-length": "2"})
        assert await reply.read_whole() == b"ok"


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"connection: close\r\ncontent-length: 2\r\n\r\nok",
        OK + b"content-length: 2\r\n\r\nok" + OK + b"content-length: 1\r\n\r\n?",
    ],
    ids=["it says so", "more than was asked for"],
)
async def test_who_cannot_be_used_again_is_not(client: UpstreamClient, answer: bytes) -> None:
    async with peer(answer) as server:
        for _ in range(2):
            reply = await client.post(server.url, {}, b"{}", fresh=False)
            assert (await reply.read_some())[:2] == b"ok"
            reply.close()
            await wait_for(lambda: not client.num_open)
    assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        OK + b"content-length: x\r\n\r\n",
        OK + b"x-long: " + b"f" * 20 * HEAD_BYTES_MAX,
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
    ],
    ids=["another protocol", "no number", "no end", "an upgrade"],
)
async def test_what_is_no_answer_is_a_lost_connection(client: UpstreamClient, answer: bytes) -> None:
    async with peer(answer) as server:
        with pytest.raises(ConnectionLost):
            await client.post(server.url, {}, b"{}")


async def test_who_is_not_read_has_to_wait(client: UpstreamClient) -> None:
    size = 400 * READ_BUFFER_BYTES
    written = asyncio.Event()

    async def talk(writer: asyncio.StreamWriter, number: int) -> None:
        writer.write(OK + b"content-length: %d\r\n\r\n" % size + b"x" * size)
        await writer.drain()
        written.set()

    async with peer(talk=talk) as server:
        reply = await client.post(server.url, {}, b"{}")
        await wait_for(lambda: reply.is_paused)
        assert not written.is_set()
        assert len(await reply.read_whole()) == size
        await asyncio.wait_for(written.wait(), WAIT_S)


async def test_no_more_requests_at_once_than_connections() -> None:
    """The next one waits for a turn, whatever became of the one before."""
    answered = asyncio.Event()

    async def talk(writer: asyncio.StreamWriter, number: int) -> None:
        if number == 1:
            await answered.wait()
            await cut(writer)
        writer.write(OK + b"content-length: 2\r\n\r\nok")

    client = UpstreamClient(UpstreamSettings(max_connections=1, connect_timeout_s=LONG_S))
    await client.start()
    async with peer(talk=talk) as server:
        first = asyncio.create_task(client.post(server.url, {}, b"{}"))
        await wait_for(lambda: server.asked == 1)
        second = asyncio.create_task(client.post(server.url, {}, b"{}"))
        answered.set()
        with pytest.raises(ConnectionLost):
            await first
        assert await (await second).read_whole() == b"ok"
    await client.close()


async def test_the_head_is_what_was_asked_for(client: UpstreamClient) -> None:
    async with peer(OK + b"content-length: 0\r\n\r\n") as server:
        await client.post(server.url + "?a=b%20c", {"x-a": "ü"}, b"{}")
        host = server.url.split("/")[2]
        with pytest.raises(ValueError, match="line break"):
            await client.post(server.url, {"x-a": "b\r\nx-c: d"}, b"{}")
    wanted = f"POST /x?a=b%20c HTTP/1.1\r\nhost: {host}\r\ncontent-length: 2\r\nx-a: ü\r\n\r\n"
    assert server.heads == [wanted.encode()]


@pytest.mark.parametrize(
    "url", ["ftp://127.0.0.1/", "http:///x", "http://exämple/", "http://a b/", "http://h:99999/"]
)
async def test_what_is_no_address_is_not_asked(client: UpstreamClient, url: str) -> None:
    with pytest.raises(ConnectFailed):
        await client.post(url, {}, b"{}")
