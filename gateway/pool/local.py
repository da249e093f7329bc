"""Engine replicas as processes of this machine.

Place: the launcher of `tollway up` and of a GPU server without an orchestrator. Each replica leads its own
session, writes its own log and carries marks in its environment, so that it is found again after the
supervisor was killed, and never mistaken. Knows no database and no desired state.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from gateway.clock import Clock, SystemClock
from gateway.ids import ReplicaId
from gateway.pool.devices import DeviceSource, DeviceWatch, NvidiaSmi
from gateway.pool.launcher import Assignment, LaunchError, Observed, Running
from gateway.pool.limits import cut_log, limit_process
from gateway.pool.process import ProcessMark, free_port, marked_processes, port_is_free, reap, signal_group
from gateway.pool.spec import EngineSpec, Placement

__all__ = ["LocalLauncher"]

HOST = "127.0.0.1"
HOME_MARK = "ENGINE_POOL_HOME"
REPLICA_MARK = "ENGINE_REPLICA_ID"
_PRIVATE_PREFIXES = ("TOLLWAY_", "UP_")
_PRIVATE_NAMES = frozenset({"DATABASE_URL", "REDIS_URL", "OPENAI_API_KEY", "OPENAI_ADMIN_KEY"})
_PORT_ATTEMPTS = 50
_KILL_POLLS = 100
_KILL_POLL_S = 0.05
_TAIL_BYTES = 4096
_LINE_CHARS_MAX = 400
_LOG_BYTES_MAX = 64 * 1024 * 1024  # one older part is kept


class LocalLauncher:
    exit_is_end = True

    def __init__(
        self,
        run_dir: Path,
        *,
        key: str,
        open_engines: bool = False,
        environ: Mapping[str, str] = os.environ,
        devices: DeviceSource | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._run_dir = run_dir.resolve()
        self._key = key
        self._open_engines = open_engines
        self._environ = environ
        self._devices = DeviceWatch(devices or NvidiaSmi(environ), clock or SystemClock())

    def runs(self, spec: EngineSpec) -> bool:
        return spec.kubernetes is None

    def room(self, spec: EngineSpec, taken: Collection[Assignment]) -> int | None:
        return len(self._free_devices(spec, taken)) // spec.gpus_per_replica if spec.gpus else None

    def assign(
        self, replica_id: ReplicaId, spec: EngineSpec, taken: Collection[Assignment], last: str | None
    ) -> Assignment:
        free, needed = self._free_devices(spec, taken), spec.gpus_per_replica
        if len(free) < needed:
            raise LaunchError(self._too_few(spec, len(free)))
        used_ports = {urlsplit(assignment.url).port for assignment in taken}
        port = next(port for port in _ports(last) if port not in used_ports)
        devices = tuple(free[:needed])
        return Assignment(f"http://{HOST}:{port}", self._devices.inventory.indices(devices), devices)

    async def survey(self) -> None:
        await self._devices.refresh()

    def fault(self, devices: Collection[str]) -> str | None:
        return self._devices.inventory.fault(devices)

    def _free_devices(self, spec: EngineSpec, taken: Collection[Assignment]) -> list[str]:
        used = [name for assignment in taken for name in (assignment.devices or assignment.gpus)]
        return self._devices.inventory.free(spec.gpus, used)

    def _too_few(self, spec: EngineSpec, free: int) -> str:
        why = {name: self._devices.inventory.why_not(name) for name in spec.gpus}
        ill = "; ".join(f"{name}: {reason}" for name, reason in why.items() if reason is not None)
        counted = f"{spec.gpus_per_replica} GPUs needed, {free} of {list(spec.gpus)} free"
        return f"{counted} ({ill})" if ill else counted

    async def launch(
        self, replica_id: ReplicaId, pool: str, spec: EngineSpec, assignment: Assignment
    ) -> Running:
        port = urlsplit(assignment.url).port
        assert port is not None
        placement = Placement(
            HOST, port, assignment.gpus, self.journal_dir(replica_id), self._key, self._open_engines
        )
        placement.journal_dir.mkdir(parents=True, exist_ok=True)
        command = spec.command(placement)
        program = shutil.which(command[0], path=self._environ.get("PATH"))
        if program is None:
            raise LaunchError(f"{command[0]} is not installed")
        log = self._log(replica_id)
        cut_log(log, _LOG_BYTES_MAX)
        log_from = log.stat().st_size if log.exists() else 0
        pid = _spawn(
            program, command, self._environment(replica_id, assignment) | spec.environ(placement), log
        )
        limit_process(pid)
        mark = ProcessMark.of(pid)
        if mark is None:
            raise LaunchError(f"{program} ended at once with {reap(pid)}; see {log}")
        return Running(mark, log, log_from)

    async def find(self, replica_id: ReplicaId, mark: ProcessMark | None) -> Running | None:
        found = mark if mark is not None and mark.alive() else None
        if found is None:
            found = next((one for one in self.processes(replica_id) if one.leads_session()), None)
        return Running(found, self._log(replica_id)) if found is not None else None

    async def observe(self, running: Running) -> Observed:
        assert running.mark is not None
        if running.log is not None:
            await asyncio.to_thread(cut_log, running.log, _LOG_BYTES_MAX)
        exit_code = reap(running.mark.pid)
        last_words = _last_line(running.log, running.log_from) if running.log and exit_code else ""
        return Observed(running.mark.alive(), exit_code, last_words)

    async def terminate(self, running: Running) -> None:
        assert running.mark is not None
        running.mark.send(signal.SIGTERM)  # to the leader alone: it ends its own children

    async def kill(self, replica_id: ReplicaId, running: Running | None) -> None:
        """Returns when they are gone, so that their port and devices can be given again."""
        ending: set[ProcessMark] = set()
        if running is not None and running.mark is not None:
            signal_group(running.mark, signal.SIGKILL)
            ending.add(running.mark)
        for _ in range(_KILL_POLLS):
            # A dying process loses its environment before it is dead: whoever was seen once is waited for.
            ending.update(self.processes(replica_id))
            for process in ending:
                process.send(signal.SIGKILL)
                reap(process.pid)
            if not any(process.alive() for process in ending):
                return
            await asyncio.sleep(_KILL_POLL_S)

    async def strays(self, known: Collection[ReplicaId]) -> tuple[ReplicaId, ...]:
        found = {ReplicaId(marks[REPLICA_MARK]) for _, marks in self._ours() if REPLICA_MARK in marks}
        return tuple(sorted(found.difference(known)))

    def directory(self, replica_id: ReplicaId) -> Path:
        return self._run_dir / replica_id

    def journal_dir(self, replica_id: ReplicaId) -> Path:
        return self.directory(replica_id) / "journal"

    def _log(self, replica_id: ReplicaId) -> Path:
        return self.directory(replica_id) / "engine.log"

    def processes(self, replica_id: ReplicaId) -> Iterator[ProcessMark]:
        return (process for process, marks in self._ours() if marks.get(REPLICA_MARK) == replica_id)

    def _ours(self) -> Iterator[tuple[ProcessMark, dict[str, str]]]:
        return marked_processes(HOME_MARK, str(self._run_dir))

    def _environment(self, replica_id: ReplicaId, assignment: Assignment) -> dict[str, str]:
        ours = {
            HOME_MARK: str(self._run_dir),
            REPLICA_MARK: replica_id,
            "CUDA_VISIBLE_DEVICES": ",".join(assignment.devices or map(str, assignment.gpus)),
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # an index means what it means to nvidia-smi
            "PYTHONUNBUFFERED": "1",
        }
        # An engine learns nothing of the gateway's databases and secrets.
        inherited = {name: value for name, value in self._environ.items() if not _is_private(name)}
        return inherited | ours


def _spawn(program: str, command: tuple[str, ...], environ: Mapping[str, str], log: Path) -> int:
    """Start a session leader that writes to `log`; returns its pid."""
    try:
        return os.posix_spawn(
            program,
            command,
            environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,  # the terminal's Ctrl-C is the supervisor's business
        )
    except OSError as error:
        raise LaunchError(f"{program}: {error.strerror}") from error


def _is_private(name: str) -> bool:
    """The gateway's own settings, keys and databases, and the marks of whoever started this process."""
    return name.startswith(_PRIVATE_PREFIXES) or name in _PRIVATE_NAMES


def _ports(last: str | None) -> Iterator[int]:
    """The replica's former port first: a gateway that still holds the old address is then right again."""
    former = urlsplit(last).port if last else None
    if former is not None and port_is_free(former, HOST):
        yield former
    for _ in range(_PORT_ATTEMPTS):
        yield free_port(HOST)
    raise LaunchError("no free port")


def _last_line(log: Path, since: int) -> str:
    """Of what was written from `since` on; empty if there is none."""
    try:
        with log.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            since = since if since <= end else 0  # it was cut meanwhile
            file.seek(max(since, end - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")[:_LINE_CHARS_MAX]
