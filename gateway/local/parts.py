"""The parts of Tollway as child processes of `tollway up`.

Place: under `up`. Each part leads its own session (the terminal's Ctrl-C reaches `up` alone), logs to its own
file, is started again when it ends by itself, and carries marks in its environment by which a later `up`
finds what a killed one left. Knows nothing of what a part does.
"""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path

import psutil

from gateway.local.failure import LocalError
from gateway.pool.process import ProcessMark, marked_processes

__all__ = ["Part", "PartFailed", "end_orphans"]

HOME_MARK = "UP_HOME"
PART_MARK = "UP_PART"
RESTART_DELAY_S = 1.0
_QUICK_DEATHS_MAX = 3  # in a row, each before the part was ready once
_ORPHAN_POLLS = 100
_POLL_S = 0.05


class PartFailed(LocalError):
    """A part ends as soon as it is started; its log says why."""


class Part:
    """One child process, kept running until `stop`."""

    def __init__(self, name: str, command: tuple[str, ...], environ: Mapping[str, str], home: Path) -> None:
        self.name = name
        self.log = home / "log" / f"{name}.log"
        self.ready = False
        self._command = command
        self._environ = {**environ, HOME_MARK: str(home), PART_MARK: name, "PYTHONUNBUFFERED": "1"}
        self._process: asyncio.subprocess.Process | None = None
        self.keeper: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    async def start(self) -> None:
        await self._spawn()
        self.keeper = asyncio.create_task(self._keep(), name=f"keep {self.name}")

    def check(self) -> None:
        """Raise PartFailed if it is no longer being kept."""
        if self.keeper is not None and self.keeper.done() and not self._stopping.is_set():
            self.keeper.result()

    def listens_on(self, port: int) -> bool:
        """Whether this part's own process holds the port: another one may have taken it first, and answer there."""
        if self._process is None:
            return False
        try:
            held = psutil.Process(self._process.pid).net_connections("tcp")
        except psutil.NoSuchProcess:
            return False
        except psutil.AccessDenied:
            return True  # nobody will tell; what answers is taken for it
        return any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in held)

    async def stop(self, timeout_s: float) -> None:
        """SIGTERM, and SIGKILL to its whole session when that takes too long."""
        self._stopping.set()
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), timeout_s)
            except TimeoutError:
                self.kill()
        await process.wait()
        if self.keeper is not None:
            await asyncio.wait([self.keeper])

    def kill(self) -> None:
        self._stopping.set()
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def _spawn(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
                env=self._environ, start_new_session=True,
            )  # fmt: skip

    async def _keep(self) -> None:
        quick_deaths = 0
        while True:
            assert self._process is not None
            code = await self._process.wait()
            if self._stopping.is_set():
                return
            quick_deaths = 0 if self.ready else quick_deaths + 1
            if quick_deaths >= _QUICK_DEATHS_MAX:
                raise PartFailed(
                    f"{self.name} ended {quick_deaths} times, at last with status {code}{_last_error(self.log)}; "
                    f"see {self.log}"
                )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), RESTART_DELAY_S)
                return
            await self._spawn()
            if self._stopping.is_set():  # told so while it was starting
                self._process.terminate()


async def end_orphans(home: Path) -> list[str]:
    """End the parts that an `up` which was killed has left; returns their names. Engines are left to run:
    the pool's supervisor adopts them, and its orphan is killed outright so that it cannot drain them."""
    orphans = [
        (mark, marks[PART_MARK])
        for mark, marks in marked_processes(HOME_MARK, str(home))
        if PART_MARK in marks and mark.leads_session()
    ]
    for mark, name in orphans:
        mark.send(signal.SIGKILL if name == "pool" else signal.SIGTERM)
    for _ in range(_ORPHAN_POLLS):
        if not any(mark.alive() for mark, _ in orphans):
            break
        await asyncio.sleep(_POLL_S)
    for mark, _ in orphans:
        _kill_session(mark)
    return sorted(name for _, name in orphans)


def _last_error(log: Path) -> str:
    """The last line that says what was wrong: a log line of level error, or a command's `error: …`."""
    for line in reversed(log.read_text(errors="replace").splitlines()):
        if line.startswith("error: "):
            return f" ({line.removeprefix('error: ')})"
        with contextlib.suppress(ValueError, KeyError, TypeError):
            event = json.loads(line)
            if event["level"] == "error":
                return f" ({event['event']})"
    return ""


def _kill_session(mark: ProcessMark) -> None:
    if mark.alive():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(mark.pid, signal.SIGKILL)
