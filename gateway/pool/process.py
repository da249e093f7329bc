"""Processes on this machine, known by pid *and* start time, so that a recycled pid is never mistaken.

Place: under the local launcher and the embedded servers. Knows nothing of engines or pools.
"""

import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """The identity of one process: what survives in a file or a database row while its parent dies."""

    pid: int
    start_ticks: int  # clock ticks from boot to the start: unlike a wall-clock time it never shifts

    @classmethod
    def of(cls, pid: int) -> "ProcessMark | None":
        """The mark of a living process, or None when there is none (a zombie counts as none)."""
        try:
            status = (_PROC / str(pid) / "stat").read_bytes()
        except OSError:
            return None
        fields = status.rpartition(b")")[2].split()  # the name before it may hold spaces and brackets
        state, start_ticks = fields[0], int(fields[19])
        return None if state in (b"Z", b"X") else cls(pid, start_ticks)

    def alive(self) -> bool:
        return ProcessMark.of(self.pid) == self

    def leads_session(self) -> bool:
        try:
            return self.alive() and os.getsid(self.pid) == self.pid
        except ProcessLookupError:
            return False

    def send(self, signum: signal.Signals) -> bool:
        """Signal this process alone; False when it is gone."""
        with contextlib.suppress(ProcessLookupError):
            if self.alive():
                os.kill(self.pid, signum)
                return True
        return False

    def environ(self) -> dict[str, str]:
        """The environment the process was started with; empty when it may not be read."""
        try:
            pairs = (_PROC / str(self.pid) / "environ").read_bytes().split(b"\0") if self.alive() else []
        except OSError:
            return {}
        return dict(pair.decode(errors="replace").split("=", 1) for pair in pairs if b"=" in pair)


def own_identity() -> str:
    """Names this process among all that ever run, on any machine: boot, pid namespace, pid, start."""
    mark = ProcessMark.of(os.getpid())
    assert mark is not None
    return f"{_universe()}/{mark.pid}/{mark.start_ticks}"


def is_dead(identity: str) -> bool:
    """Whether that process is known to be gone; never true of another machine's or container's."""
    universe, _, rest = identity.partition("/")
    pid, _, ticks = rest.partition("/")
    if universe != _universe() or not (pid.isdecimal() and ticks.isdecimal()):
        return False
    return not ProcessMark(int(pid), int(ticks)).alive()


def _universe() -> str:
    boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}:{(_PROC / 'self/ns/pid').stat().st_ino}"


def marked_processes(name: str, value: str) -> Iterator[tuple[ProcessMark, dict[str, str]]]:
    """Every living process of ours that was started with `name=value` in its environment."""
    for entry in _PROC.iterdir():
        mark = ProcessMark.of(int(entry.name)) if entry.name.isdecimal() else None
        environ = mark.environ() if mark is not None else {}
        if mark is not None and environ.get(name) == value:
            yield mark, environ


def signal_group(mark: ProcessMark, signum: signal.Signals) -> bool:
    """Signal the process group that `mark` leads; False when the process is no longer that one."""
    if not mark.alive():
        return False
    with contextlib.suppress(ProcessLookupError):
        os.killpg(mark.pid, signum)
        return True
    return False


def reap(pid: int) -> int | None:
    """Collect the exit status if `pid` is our ended child; None while it runs or when it is not ours."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return os.waitstatus_to_exitcode(status) if ended else None


def free_port(host: str = "127.0.0.1") -> int:
    """A TCP port that nobody listens on now; the caller must be ready to lose it and ask again."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def port_is_free(port: int, host: str = "127.0.0.1") -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True
