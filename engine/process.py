"""The supervisor of one engine: holds the listening socket, starts the core and the API processes, replaces them.

Place: `python -m engine serve` runs this and nothing else in its process; it answers no request and loads no model.
A lost core is reported to the API processes, which stay up, and replaced with backoff under a new epoch. A lost API
process is reported to the core, its journal is closed, and it is replaced. SIGTERM or /internal/drain drains, a
second SIGTERM aborts. Children end by themselves when this process dies: their control sockets close.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from engine.config import EngineConfig
from engine.messages import CoreReady, Shutdown, WorkerGone
from engine.server import segments
from engine.server.control import (
    Abort,
    ApiSpec,
    CoreDown,
    CoreSpec,
    CoreUp,
    Drain,
    DrainWanted,
    FromApi,
    FromCore,
    Ready,
    Serving,
    encode_line,
    read_lines,
)
from engine.server.journal import close_orphans, remove_old

_LOG = logging.getLogger(__name__)
_BACKLOG = 2048
_BACKOFF_S = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_STABLE_S = 60.0
"""A child that lived this long starts again without delay."""
_FAILURES_MAX = 7
"""This many starts in a row without success end the engine; whoever started it decides what then."""
_SHUTDOWN_S = 10.0
ENGINE = (sys.executable, "-m", "engine")
_QUIET_THREADS = {"OMP_WAIT_POLICY": "passive"}
"""Torch's threads sleep at the end of a parallel region instead of spinning. With other processes on the same
cores a spinning thread keeps the one it waits for from running: measured on two busy cores, a decode step of
one sequence took 130–550 ms spinning and 40–66 ms sleeping."""
_FEW_KERNELS = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "128", "LRU_CACHE_CAPACITY": "128"}
"""oneDNN, and torch's layer above it, write a kernel for every product and every number of tokens in a step, and keep
the last 1,024 each; one takes 0.3 to 1 MiB, so a core on a CPU grew by 670 MiB until they were full. A step needs 5;
128 are those of 25 sizes of steps, more than a batch of answers takes on by default. The time of steps of 16 sizes in
turn is the same; one that is not kept costs its step some 0.5 ms."""
_GIVES_BACK = {"MALLOC_MMAP_THRESHOLD_": str(256 << 10), "MALLOC_TRIM_THRESHOLD_": str(512 << 10)}
"""For API processes. Left alone, glibc takes a large block that was freed as a sign that more will come, and keeps up to
64 MiB from then on: after some bodies of 24 MiB a process held 55 MiB more than before, with these 0 to 8; in a long run
of mixed requests 88 MiB instead of 67, of which 10 were in use."""


def serve(config: EngineConfig) -> int:
    """Run until drained; returns the exit status."""
    if config.server.journal_dir is not None:
        try:
            with segments.locked(Path(config.server.journal_dir)):
                pass
        except OSError as error:
            _LOG.error("journal_dir cannot be used: %s", error)
            return 1
    return asyncio.run(Supervisor(config).run())


class Supervisor:
    """`core_command` replaces the real core in tests."""

    def __init__(self, config: EngineConfig, core_command: Sequence[str] = (*ENGINE, "core")) -> None:
        self._config = config
        self._core_command = core_command
        self._num_workers = config.server.api_server_workers
        self._workers: dict[int, Child] = {}
        self._core: Child | None = None
        self._core_up: CoreUp | None = None
        self._generation = 0
        self._draining = False
        self._ended = asyncio.Event()
        self._status = 0
        self._run_dir = Path()
        self._listener: socket.socket | None = None

    async def run(self) -> int:
        server = self._config.server
        try:
            self._listener = socket.create_server(
                (server.host, server.port), backlog=_BACKLOG, family=_family(server.host)
            )
        except OSError as error:
            _LOG.error("cannot listen on %s port %d: %s", server.host, server.port, error.strerror or error)
            return 1
        self._run_dir = Path(tempfile.mkdtemp(prefix="tollway-engine-"))
        _LOG.info("listening on http://%s:%d", server.host, self._listener.getsockname()[1])
        self._close_journals()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        keepers = [asyncio.create_task(self._keep_core())]
        keepers += [asyncio.create_task(self._keep_worker(worker)) for worker in range(self._num_workers)]
        try:
            await self._until_ended(keepers)
        finally:
            for keeper in keepers:
                keeper.cancel()
            await self._stop_children()
            self._listener.close()
            self._close_journals()
            shutil.rmtree(self._run_dir, ignore_errors=True)
        return self._status

    async def _until_ended(self, keepers: Sequence[asyncio.Task[None]]) -> None:
        """Until something sets the end, or a keeper breaks (which is a bug and must not go unnoticed)."""
        ended = asyncio.create_task(self._ended.wait())
        done, _ = await asyncio.wait([ended, *keepers], return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        for task in done:
            await task

    # -- the core -----------------------------------------------------------------------------------------

    async def _keep_core(self) -> None:
        failures = 0
        while True:
            self._generation += 1
            core = self._core = await Child.start(self._core_command, "core", _QUIET_THREADS | _FEW_KERNELS)
            epoch = uuid.uuid4().hex
            core.tell(CoreSpec(self._config, str(self._run_dir), self._generation, epoch))
            async for message in core.messages(FromCore):
                assert isinstance(message, Ready), message
                self._on_core_ready(core, message.ready)
            status = await core.wait()
            was_up, self._core_up = self._core_up is not None, None
            self._tell_workers(CoreDown(_describe(status)))
            _LOG.error("the core %s", _describe(status))
            failures = 0 if was_up and core.age_s > _STABLE_S else failures + 1
            if failures >= _FAILURES_MAX or (self._generation == 1 and not was_up):
                return self._end(1)
            await asyncio.sleep(_BACKOFF_S[min(max(failures - 1, 0), len(_BACKOFF_S) - 1)])

    def _on_core_ready(self, core: Child, ready: CoreReady) -> None:
        _LOG.info("core %d is ready after %.1f s (epoch %s)", core.pid, core.age_s, ready.epoch)
        self._core_up = CoreUp(self._generation, core.pid, ready)
        self._tell_workers(self._core_up)

    # -- API processes ------------------------------------------------------------------------------------

    async def _keep_worker(self, number: int) -> None:
        assert self._listener is not None
        failures, ever_served = 0, False
        while True:
            descriptor = self._listener.fileno()
            worker = self._workers[number] = await Child.start(
                (*ENGINE, "api"), f"api {number}", _GIVES_BACK, descriptor
            )
            worker.tell(ApiSpec(self._config, number, str(self._run_dir), descriptor))
            served = False
            async for message in worker.messages(FromApi):
                if isinstance(message, DrainWanted):
                    self.drain()
                elif isinstance(message, Serving):
                    served = ever_served = True
                    self._introduce(worker)
            status = await worker.wait()
            del self._workers[number]
            if self._draining and status == 0:
                return await self._worker_drained()
            _LOG.error("API process %d %s", number, _describe(status))
            if self._core is not None:
                self._core.tell(WorkerGone(worker=number))
            self._close_journals()
            failures = 0 if served and worker.age_s > _STABLE_S else failures + 1
            if failures >= _FAILURES_MAX or not ever_served:
                return self._end(1)
            await asyncio.sleep(_BACKOFF_S[min(max(failures - 1, 0), len(_BACKOFF_S) - 1)])

    def _introduce(self, worker: Child) -> None:
        """Tell a new API process what the others already know."""
        worker.introduced = True
        if self._core_up is not None:
            worker.tell(self._core_up)
        if self._draining:
            worker.tell(Drain())

    async def _worker_drained(self) -> None:
        if not self._workers:
            self._end(self._status)
        await asyncio.Event().wait()  # the other keepers decide when all is over

    def _tell_workers(self, message: msgspec.Struct) -> None:
        for worker in self._workers.values():
            if worker.introduced:
                worker.tell(message)

    # -- the end ------------------------------------------------------------------------------------------

    def drain(self) -> None:
        if not self._draining:
            self._draining = True
            _LOG.info("draining")
            self._tell_workers(Drain())

    def _on_signal(self) -> None:
        if self._draining:
            _LOG.warning("second signal: aborting what still runs")
            self._tell_workers(Abort())
        self.drain()
        if not self._workers:
            self._end(0)

    def _end(self, status: int) -> None:
        self._status = status
        self._ended.set()

    async def _stop_children(self) -> None:
        """API processes first, so that nothing is waiting for the core when it goes."""
        for worker in list(self._workers.values()):
            worker.tell(Abort())
        await _gone([*self._workers.values()])
        if self._core is not None:
            self._core.tell(Shutdown())
            await _gone([self._core])

    def _close_journals(self) -> None:
        if self._config.server.journal_dir is not None:
            directory = Path(self._config.server.journal_dir)
            now_ms = time.time_ns() // 1_000_000
            try:
                closed = close_orphans(directory, now_ms)
                remove_old(directory, now_ms)
            except OSError:  # the requests that run are worth more than the records of those that do not
                return _LOG.exception("the journals of ended processes could not be closed")
            if closed:
                _LOG.info("closed %d journal segments of ended processes", closed)


@dataclass(slots=True)
class Child:
    """A child process and our end of its control socket."""

    process: asyncio.subprocess.Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    born_s: float
    introduced: bool = False
    """It was told what the others know; from now on it gets the news."""

    @classmethod
    async def start(
        cls, command: Sequence[str], name: str, settings: Mapping[str, str], *inherited: int
    ) -> Child:
        """`settings`: of the environment, where the operator's has no other."""
        ours, theirs = socket.socketpair()
        try:
            process = await asyncio.create_subprocess_exec(
                *(*command, "--control-fd", str(theirs.fileno())),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), *inherited),
                env={**settings, **os.environ},
            )
        finally:
            theirs.close()
        reader, writer = await asyncio.open_unix_connection(sock=ours, limit=1 << 20)
        _LOG.info("started %s as process %d", name, process.pid)
        return cls(process, reader, writer, time.monotonic())

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def age_s(self) -> float:
        return time.monotonic() - self.born_s

    def tell(self, message: msgspec.Struct) -> None:
        if not self.writer.is_closing():
            self.writer.write(encode_line(message))

    async def messages(self, kind: Any) -> AsyncIterator[Any]:
        """Until the child closes its end, which it does by ending."""
        async for message in read_lines(self.reader, kind):
            yield message

    async def wait(self) -> int:
        """The exit status. A child that closed its control socket and lives on is of no use."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SHUTDOWN_S):
                await self.process.wait()
        if self.process.returncode is None:
            self.process.kill()
        self.writer.close()
        return await self.process.wait()


async def _gone(children: Sequence[Child]) -> None:
    if children:
        await asyncio.gather(*(child.wait() for child in children))


def _describe(status: int) -> str:
    return f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
