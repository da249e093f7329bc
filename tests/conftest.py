"""Real servers for the tests: one Postgres and one Valkey per test session (per xdist worker).

`database_url` is a fresh migrated database for each test, `cache_url` an emptied Valkey.
`TOLLWAY_TEST_DATABASE_URL` names an already running Postgres whose user may create databases.
"""

import asyncio
import contextlib
import itertools
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
import redis
from hypothesis import HealthCheck, settings

if not Path("/dev/nvidiactl").exists():
    # Read when a kernel is defined: on a machine without a GPU the kernels' tests interpret them.
    os.environ.setdefault("TRITON_INTERPRET", "1")

from gateway.local.postgres import EmbeddedPostgres
from gateway.local.valkey import EmbeddedValkey
from gateway.migrate import migrate
from gateway.pool.process import ProcessMark
from tests.patience import PatientDatabase
from tests.seeds import are_fixed

# How long an example takes says nothing on a busy machine.
settings.register_profile(
    "busy", settings(), deadline=None, derandomize=are_fixed(), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy")

_PREFIX = "tollway-test-"
_TEMPLATE = f"tollway_template_{os.getpid()}"


@pytest.fixture(scope="session")
def server_directory() -> Iterator[Path]:
    """A directory that other users may enter, so that Postgres started by root can work in it."""
    _sweep_dead_sessions()
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
    directory.chmod(0o711)
    mark = ProcessMark.of(os.getpid())
    assert mark is not None
    (directory / "owner.json").write_text(json.dumps(asdict(mark)))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def _patient_databases() -> Iterator[None]:
    """What a busy machine delays is no fault: a `Database` that a test opens by its URL alone waits longer than one of
    the product for its connection."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gateway.db.DatabaseSettings", PatientDatabase)
        yield


@pytest.fixture(scope="session")
def postgres_admin_url(server_directory: Path) -> Iterator[str]:
    """A server whose user may create databases; the URL names a database to connect to for that."""
    external = os.environ.get("TOLLWAY_TEST_DATABASE_URL")
    if external:
        yield external
        return
    server = EmbeddedPostgres(server_directory, durable=False)
    try:
        server.start()
        yield server.url("postgres")
    finally:
        server.stop()


@pytest.fixture(scope="session")
def _template(postgres_admin_url: str) -> Iterator[str]:
    """The name of the migrated database that every test's database is a clone of."""
    execute(postgres_admin_url, f"CREATE DATABASE {_TEMPLATE}")
    try:
        url = urlunsplit(urlsplit(postgres_admin_url)._replace(path=f"/{_TEMPLATE}"))
        apart(migrate(url, PatientDatabase()))
        yield _TEMPLATE
    finally:
        execute(postgres_admin_url, f"DROP DATABASE {_TEMPLATE} WITH (FORCE)")


@pytest.fixture(scope="session")
def _numbers() -> Iterator[int]:
    return itertools.count(1)


@pytest.fixture
def database_url(postgres_admin_url: str, _template: str, _numbers: Iterator[int]) -> Iterator[str]:
    """A migrated database of this test's own."""
    with _fresh_database(postgres_admin_url, next(_numbers), _template) as url:
        yield url


@pytest.fixture
def empty_database_url(postgres_admin_url: str, _numbers: Iterator[int]) -> Iterator[str]:
    """The same, before any migration."""
    with _fresh_database(postgres_admin_url, next(_numbers), "template1") as url:
        yield url


@contextlib.contextmanager
def _fresh_database(postgres_admin_url: str, number: int, template: str) -> Iterator[str]:
    name = f"tollway_{os.getpid()}_{number}"
    execute(postgres_admin_url, f"CREATE DATABASE {name} TEMPLATE {template}")
    try:
        yield urlunsplit(urlsplit(postgres_admin_url)._replace(path=f"/{name}"))
    finally:
        execute(postgres_admin_url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def _valkey(server_directory: Path) -> Iterator[EmbeddedValkey]:
    server = EmbeddedValkey(server_directory)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def cache_url(_valkey: EmbeddedValkey) -> str:
    with redis.Redis.from_url(_valkey.url()) as client:
        client.flushall()
    return _valkey.url()


def execute(url: str, statement: str) -> None:
    """Run one statement outside a transaction."""

    async def run() -> None:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    apart(run())


def apart(work: Coroutine[Any, Any, Any]) -> None:
    """Run `work` in a thread with a loop of its own, since the test may own one here."""
    failures: list[BaseException] = []

    def body() -> None:
        try:
            asyncio.run(work)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def _sweep_dead_sessions() -> None:
    """Stop the servers of sessions that were killed before they could do it themselves."""
    for directory in Path(tempfile.gettempdir()).glob(_PREFIX + "*"):
        with contextlib.suppress(OSError, ValueError):
            if ProcessMark(**json.loads((directory / "owner.json").read_text())).alive():
                continue
            EmbeddedPostgres(directory).stop()
            valkey = EmbeddedValkey(directory)
            if valkey.adopt():
                valkey.stop()
            shutil.rmtree(directory, ignore_errors=True)
