"""The real stack for these tests: `tollway up` as a user starts it, on a tiny model with random weights."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import pytest
from openai import AsyncOpenAI
from prometheus_client.parser import text_string_to_metric_families

from gateway.local.demo import Environment
from gateway.local.parts import HOME_MARK, PART_MARK
from gateway.pool.local import HOME_MARK as ENGINE_MARK
from gateway.pool.process import ProcessMark, marked_processes
from tests.models import write_tiny_gemma3
from tests.patience import PATIENT
from tests.ports import keep_port

STOP_S = 180
UP = "Ctrl-C stops everything."


class Stack:
    """One `tollway up` and what a caller, an operator and a saboteur may do with it."""

    def __init__(self, home: Path, model: Path, environ: Mapping[str, str] | None = None) -> None:
        """`environ`: settings of the parts beyond those of all tests."""
        self.home, self.model = home, model
        self._environ = PATIENT | (environ or {})
        self._keeper = keep_port()  # as long as this is there
        self.port = self._keeper.getsockname()[1]
        self.process: subprocess.Popen[str] | None = None

    def start(self, *flags: str) -> str:
        """Returns what was shown, when it is up."""
        self.process = self.launch(*flags)
        shown = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            shown.append(line)
            if UP in line:
                return "".join(shown)
        raise AssertionError(f"it ended with {self.process.wait()}:\n{''.join(shown)}{self._logs()}")

    def launch(self, *flags: str) -> "subprocess.Popen[str]":
        command = [
            sys.executable,
            "-m",
            "gateway",
            "up",
            "--data",
            str(self.home),
            "--model",
            str(self.model),
            "--port",
            str(self.port),
        ]
        environ = {
            name: value for name, value in os.environ.items() if not name.startswith(("DATABASE_", "REDIS_"))
        }
        return subprocess.Popen(
            [*command, *flags],
            env=environ | self._environ,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def close(self) -> None:
        self._keeper.close()

    def stop(self, signum: signal.Signals = signal.SIGINT) -> int:
        """Signal `up` and wait for it."""
        assert self.process is not None
        self.process.send_signal(signum)
        try:
            _, code = self.process.communicate(timeout=STOP_S)[0], self.process.returncode
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise
        self.process = None
        return code

    @property
    def env(self) -> dict[str, str]:
        return Environment(self.home / "demo.env").read()

    def client(self, **options: Any) -> AsyncOpenAI:
        given = {
            "base_url": self.env["OPENAI_BASE_URL"],
            "api_key": self.env["OPENAI_API_KEY"],
            "max_retries": 0,
        }
        return AsyncOpenAI(**(given | options))

    async def rows(self, query: str, *arguments: object) -> list[asyncpg.Record]:
        connection = await asyncpg.connect(self.env["DATABASE_URL"])
        try:
            return list(await connection.fetch(query, *arguments))
        finally:
            await connection.close()

    async def engine_status(self) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {(self.home / 'secrets' / 'internal_key').read_text()}"}
        async with (
            aiohttp.ClientSession(headers=headers) as client,
            client.get(self.env["TOLLWAY_ENGINE_URL"] + "/internal/status") as answer,
        ):
            parsed: dict[str, Any] = await answer.json()
            return parsed

    async def engine_counters(self) -> dict[str, float]:
        """Each of the engine's metrics, summed over its labels."""
        async with (
            aiohttp.ClientSession() as client,
            client.get(self.env["TOLLWAY_ENGINE_URL"] + "/metrics") as answer,
        ):
            text = await answer.text()
        sums: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
        return sums

    def part(self, name: str) -> ProcessMark:
        (mark,) = (
            mark
            for mark, marks in marked_processes(HOME_MARK, str(self.home))
            if marks.get(PART_MARK) == name and mark.leads_session()
        )
        return mark

    def processes(self) -> list[ProcessMark]:
        """Everything that `up` ever started and that still runs."""
        found = [mark for mark, _ in marked_processes(HOME_MARK, str(self.home))]
        found += [mark for mark, _ in marked_processes(ENGINE_MARK, str(self.home / "run"))]
        pids = [int(line) for line in self._server_pids()]
        return found + [mark for mark in map(ProcessMark.of, pids) if mark is not None]

    def _server_pids(self) -> Iterator[str]:
        postmaster = self.home / "postgres" / "cluster" / "data" / "postmaster.pid"
        if postmaster.exists():
            yield postmaster.read_text().splitlines()[0]
        yield str(json.loads((self.home / "valkey" / "process.json").read_text())["pid"])

    def _logs(self) -> str:
        logs = [*self.home.glob("log/*.log"), *self.home.glob("run/*/engine.log")]
        return "\n".join(f"== {log}\n{log.read_text()[-3000:]}" for log in logs)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny"
    write_tiny_gemma3(path)
    return path


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """Others may enter it: Postgres, started by root, runs as another user."""
    with tempfile.TemporaryDirectory(prefix="tollway-e2e-", ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o711)
        yield Path(directory).resolve() / "var"


@pytest.fixture(scope="module")
def stack(home: Path, tiny_model: Path) -> Iterator[Stack]:
    """Up for all tests of a module, and gone without a trace afterwards."""
    stack = Stack(home, tiny_model)
    try:
        stack.start()
        yield stack
    finally:
        if stack.process is not None:
            stack.stop()
        remaining = stack.processes()
        for mark in remaining:
            mark.send(signal.SIGKILL)
        stack.close()
    assert remaining == []


async def until(reached: Callable[[], Awaitable[bool]], within_s: float = 240) -> None:
    async with asyncio.timeout(within_s):
        while not await reached():  # noqa: ASYNC110  # other processes
            await asyncio.sleep(0.1)


async def in_flight(stack: Stack) -> list[str]:
    """What is held, once the engine works on all of it: a gateway that is slow may hold what it has not sent yet."""
    held = [row["request_id"] for row in await stack.rows("SELECT request_id FROM hold")]
    return held if set(held) <= set((await stack.engine_status())["request_ids"]) else []


@asynccontextmanager
async def caller(stack: Stack, **options: Any) -> AsyncIterator[AsyncOpenAI]:
    async with stack.client(**options) as client:
        yield client
