"""A cable that tests can cut: a TCP relay in front of a real server. It knows nothing of what it carries."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit

from tests.ports import keep_port


class Cable:
    """While cut, open connections are gone and new ones are refused; while silent, nothing gets through."""

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._relays: set[asyncio.Task[None]] = set()
        self._through = asyncio.Event()
        self._through.set()
        self._keeper = keep_port()  # ours while it is cut too
        self.port = self._keeper.getsockname()[1]

    async def join(self) -> None:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", self.port)

    def close(self) -> None:
        self._keeper.close()

    async def cut(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        self._through.set()
        await self._server.wait_closed()
        await asyncio.gather(*self._relays, return_exceptions=True)

    def silence(self) -> None:
        self._through.clear()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._relays.add(task)
        task.add_done_callback(self._relays.discard)
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        self._writers |= {writer, far_writer}
        try:
            await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
        finally:
            for one in (writer, far_writer):
                one.close()
                with contextlib.suppress(OSError):
                    await one.wait_closed()
            self._writers -= {writer, far_writer}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self._through.wait()
                writer.write(data)
                await writer.drain()
        with contextlib.suppress(OSError):
            writer.close()


@asynccontextmanager
async def cable_to(url: str) -> AsyncIterator[tuple[Cable, str]]:
    """A cable to the server of a URL, and the URL that leads through it."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    cable = Cable(parts.hostname, parts.port)
    await cable.join()
    login = parts.netloc.rpartition("@")[0]
    netloc = f"{login}@127.0.0.1:{cable.port}" if login else f"127.0.0.1:{cable.port}"
    try:
        yield cable, urlunsplit(parts._replace(netloc=netloc))
    finally:
        await cable.cut()
        cable.close()
