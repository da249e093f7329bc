"""A TCP proxy in front of a real server, which can be cut: the network between us and Postgres."""

import asyncio
import contextlib
from typing import Any
from urllib.parse import urlsplit, urlunsplit


class TcpProxy:
    """Relays 127.0.0.1:port to the server of `url`. While cut, connections are refused and none is left; while silent,
    they are kept and nothing passes, as when packets are lost."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._server: asyncio.Server | None = None
        self._port = 0
        self._pipes: set[asyncio.Task[Any]] = set()
        self._relays: set[asyncio.Task[None] | None] = set()
        self._cut_after: tuple[bytes, bytes] | None = None
        self._passes = asyncio.Event()
        self._passes.set()

    @property
    def url(self) -> str:
        user = self._target.netloc.rpartition("@")[0]
        return urlunsplit(self._target._replace(netloc=f"{user}@127.0.0.1:{self._port}"))

    async def restore(self) -> None:
        self._cut_after = None
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for pipe in self._pipes:
            pipe.cancel()
        await asyncio.gather(*self._pipes, return_exceptions=True)
        self._pipes.clear()
        await asyncio.gather(*filter(None, self._relays), return_exceptions=True)

    def cut_after(self, sent: bytes, *, once_seen: bytes) -> None:
        """On a connection that has sent `once_seen`: forward the bytes that contain `sent`, and cut when the server has
        begun to answer them, of which nothing comes back."""
        self._cut_after = (once_seen, sent)

    def be_silent(self) -> None:
        self._passes.clear()

    def speak(self, *, late: bool) -> None:
        """`late`: what was sent meanwhile arrives now. Else the connections of before stay silent for ever, and only new
        ones pass."""
        if late:
            self._passes.set()
        else:
            self._passes = asyncio.Event()
            self._passes.set()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        relay = asyncio.current_task()
        self._relays.add(relay)
        try:
            await self._connect(reader, writer, self._passes)
        finally:
            self._relays.discard(relay)

    async def _connect(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passes: asyncio.Event
    ) -> None:
        waiting = asyncio.create_task(passes.wait())
        self._pipes.add(waiting)
        await asyncio.wait([waiting])
        if waiting.cancelled():
            writer.close()
            return
        try:
            target_reader, target_writer = await asyncio.open_connection(
                self._target.hostname, self._target.port
            )
        except OSError:  # the server itself is away
            writer.close()
            return
        lost = asyncio.Event()
        answers = asyncio.create_task(self._pipe(target_reader, writer, passes, lost))
        both = (asyncio.create_task(self._pipe(reader, target_writer, passes, lost, answers)), answers)
        self._pipes.update(both)
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for pipe in both:
            pipe.cancel()
        for end in (writer, target_writer):
            end.close()
            with contextlib.suppress(OSError):
                await end.wait_closed()

    async def _pipe(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        passes: asyncio.Event,
        lost: asyncio.Event,
        answers: asyncio.Task[None] | None = None,
    ) -> None:
        """Towards the server with the pipe of its `answers`, which are not passed on once `lost` is set."""
        seen = b""
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                await passes.wait()
                if lost.is_set():
                    return
                writer.write(data)
                await writer.drain()
                if answers is not None:
                    seen += data
                    if self._cut_after is not None and self._is_due(seen, data):
                        lost.set()
                        self._cut_all_but(asyncio.current_task(), answers)
                        await answers

    def _is_due(self, seen: bytes, data: bytes) -> bool:
        assert self._cut_after is not None
        once_seen, sent = self._cut_after
        return once_seen in seen and sent in data

    def _cut_all_but(self, *spared: asyncio.Task[Any] | None) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for pipe in self._pipes.difference(spared):
            pipe.cancel()
