"""The embedded Postgres: starts, is adopted, keeps data and port, runs as an unprivileged account."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import psutil
import pytest

from gateway.local.postgres import EmbeddedPostgres, PostgresError


@pytest.fixture
def directory() -> Iterator[Path]:
    """pytest's own temporary directories are closed to other users; this one may be entered."""
    with tempfile.TemporaryDirectory(prefix="tollway-postgres-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


async def _value(url: str, query: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def test_data_and_port_survive_a_restart(directory: Path) -> None:
    server = EmbeddedPostgres(directory)
    server.start()
    try:
        server.ensure_database()
        server.ensure_database()  # the second time nothing happens
        url = server.url()
        await _value(url, "CREATE TABLE kept AS SELECT 7 AS n")
        assert await _value(url, "SHOW fsync") == "on"
        server.stop()
        server.start()
        assert server.url() == url
        assert await _value(url, "SELECT n FROM kept") == 7
    finally:
        server.stop()


async def test_a_second_launcher_adopts_the_running_server(directory: Path) -> None:
    first = EmbeddedPostgres(directory, durable=False)
    first.start()
    second = EmbeddedPostgres(directory, durable=False)
    second.start()
    try:
        assert second.port == first.port
        assert await _value(second.url("postgres"), "SELECT 1") == 1
    finally:
        second.stop()
    first.stop()  # already stopped by the other: nothing to do
    with pytest.raises(OSError, match="Connect call failed"):
        await _value(first.url("postgres"), "SELECT 1")


def test_the_server_never_runs_as_root_and_parents_keep_their_modes(directory: Path) -> None:
    closed = directory / "closed"
    closed.mkdir(mode=0o700)
    before = [path.stat().st_mode for path in (directory, closed, directory.parent)]
    server = EmbeddedPostgres(closed / "below", durable=False)
    server.start()
    try:
        pid = int((server.home / "data" / "postmaster.pid").read_text().splitlines()[0])
        assert psutil.Process(pid).uids().real == server.home.stat().st_uid
        assert psutil.Process(pid).uids().real != 0
        assert (server.home.stat().st_mode & 0o777) == 0o700
        assert [path.stat().st_mode for path in (directory, closed, directory.parent)] == before
    finally:
        server.stop()
        shutil.rmtree(server.home)  # run by root it is not below `directory`


async def test_the_system_binaries_are_used_when_they_are_named(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = EmbeddedPostgres(directory).binaries.directory
    monkeypatch.setenv("PG_BIN", str(named))
    server = EmbeddedPostgres(directory, durable=False)
    server.start()
    try:
        assert server.binaries.directory == Path(os.environ["PG_BIN"])
        assert str(await _value(server.url("postgres"), "SHOW server_version")) == server.binaries.version
    finally:
        server.stop()


def test_a_cluster_of_another_major_version_is_named(directory: Path) -> None:
    data = EmbeddedPostgres(directory).home / "data"
    data.mkdir()
    (data / "PG_VERSION").write_text("9\n")
    with pytest.raises(PostgresError, match="no usable binaries of PostgreSQL 9"):
        EmbeddedPostgres(directory)
