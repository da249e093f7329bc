"""A real API process (in the test's event loop, on a real port) in front of a scripted core."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import openai
import pytest

from engine.config import EngineConfig
from engine.core_transport import CoreTransport
from engine.messages import CoreReady, Shutdown
from engine.server.api_process import ApiProcess
from engine.server.control import (
    Abort,
    ApiSpec,
    CoreDown,
    CoreUp,
    DrainWanted,
    FromApi,
    LineReader,
    Serving,
    ToApi,
    ToCore,
    encode_line,
    read_lines,
)
from engine.server.services import Services
from tests.fakes.core import FakeCore, ready
from tests.tiny_tokenizer import write_llama_tokenizer

API_KEY, INTERNAL_KEY = "sk-test", "internal-test"
MODEL = "tiny"


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text files only: the core is a fake."""
    folder = tmp_path_factory.mktemp("model")
    write_llama_tokenizer(folder)
    return folder


@dataclass
class Server:
    """One API process, its scripted core, and the supervisor's end of its control socket."""

    port: int
    process: ApiProcess
    core: FakeCore
    run_dir: Path
    control: asyncio.StreamWriter
    said: list[Any] = field(default_factory=list)
    generation: int = 1
    exit_status: asyncio.Task[int] | None = None
    clients: list[openai.AsyncOpenAI] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def services(self) -> Services:
        return self.process.services

    def client(self, key: str = API_KEY, *, strict: bool = True) -> openai.AsyncOpenAI:
        """Closed with the server."""
        made = openai.AsyncOpenAI(
            base_url=f"{self.url}/v1", api_key=key, max_retries=0, _strict_response_validation=strict
        )
        self.clients.append(made)
        return made

    def session(self, key: str | None = INTERNAL_KEY) -> aiohttp.ClientSession:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        return aiohttp.ClientSession(self.url, headers=headers)

    def tell(self, message: msgspec.Struct) -> None:
        self.control.write(encode_line(message))

    async def kill_core(self) -> None:
        await asyncio.to_thread(self.core.die)
        self.tell(CoreDown("killed by a test"))

    async def new_core(self, about: CoreReady) -> None:
        self.generation += 1
        self.core = start_core(self.run_dir, self.generation)
        self.tell(CoreUp(self.generation, 4711, about))
        await self.until(lambda: self.services.bridge.ready is not None)

    async def until(self, condition: Callable[[], bool], within_s: float = 60) -> None:
        async with asyncio.timeout(within_s):
            while not condition():  # noqa: ASYNC110  # conditions span threads and processes
                await asyncio.sleep(0.002)

    async def core_until(self, condition: Callable[[], bool]) -> None:
        await asyncio.to_thread(self.core.wait_for, condition)


def start_core(run_dir: Path, generation: int, num_workers: int = 1) -> FakeCore:
    core = FakeCore(core_transport(run_dir, generation, num_workers), num_workers)
    core.start()
    return core


def core_transport(run_dir: Path, generation: int = 1, num_workers: int = 1) -> CoreTransport:
    """A core's end of the boundary."""
    return CoreTransport(run_dir, generation, num_workers, LineReader(_dangling_socket(), ToCore))


def _dangling_socket() -> socket.socket:
    """Stands for the supervisor's: nobody writes to it, and it never ends."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind("")
    return listener


@asynccontextmanager
async def running_server(
    model_dir: Path, journal_dir: Path, *, real_core: bool = False, **flags: object
) -> AsyncIterator[Server]:
    """Starts the process, waits until it answers with a core, and drains it at the end. With `real_core` the model
    is computed, and `Server.core` is no fake."""
    config = EngineConfig.from_flags(
        {
            "model": str(model_dir),
            "served_model_name": (MODEL, "alias"),
            "api_key": (API_KEY,),
            "internal_key": INTERNAL_KEY,
            "journal_dir": str(journal_dir),
            "drain_grace_s": 0.0,
            **flags,
        }
    )
    with tempfile.TemporaryDirectory(prefix="tw-") as folder:
        run_dir = Path(folder)
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        ours, theirs = socket.socketpair()
        reader, control = await asyncio.open_unix_connection(sock=ours)
        their_reader, their_writer = await asyncio.open_unix_connection(sock=theirs)
        spec = ApiSpec(config, 0, folder, listener.detach())
        process = ApiProcess(spec, their_writer)
        core, about = _real_core(config, run_dir) if real_core else (start_core(run_dir, 1), ready())
        server = Server(port, process, core, run_dir, control)
        listening = asyncio.create_task(_listen(reader, FromApi, server.said))
        server.exit_status = asyncio.create_task(process.run(read_lines(their_reader, ToApi)))
        server.tell(CoreUp(1, 4711, about))
        await server.until(lambda: server.services.bridge.ready is not None and Serving() in server.said)
        try:
            yield server
        finally:
            for client in server.clients:
                await client.close()
            if not server.exit_status.done():
                server.tell(Abort())
            await server.exit_status
            listening.cancel()
            server.core.die()
            for writer in (control, their_writer):
                writer.close()
                await writer.wait_closed()


def _real_core(config: EngineConfig, run_dir: Path) -> tuple[Any, CoreReady]:
    from tests.engine.server.real_core import RealCore  # imports torch

    core = RealCore(config, core_transport(run_dir))
    core.start()
    return core, core.about


async def _listen(reader: asyncio.StreamReader, kind: Any, said: list[Any]) -> None:
    async for message in read_lines(reader, kind):
        said.append(message)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine's processes answer each other late."""
    monkeypatch.setattr("engine.server.peers.ANSWER_TIMEOUT_S", 60.0)
    monkeypatch.setattr("engine.server.api_process._ABORT_WAIT_S", 60.0)


@pytest.fixture
async def server(model_dir: Path, tmp_path: Path) -> AsyncIterator[Server]:
    async with running_server(model_dir, tmp_path / "journal") as running:
        yield running


__all__ = ["API_KEY", "INTERNAL_KEY", "MODEL", "DrainWanted", "Server", "Shutdown", "running_server"]
