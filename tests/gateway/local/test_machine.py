"""The machine: settings of its parts, external servers left alone, blocking work never left behind."""

import asyncio
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.local.machine import Machine, in_thread


async def test_external_servers_are_neither_started_nor_stopped(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"DATABASE_URL": "postgresql://db/x", "REDIS_URL": "redis://cache"})
    settings = machine.settings()
    assert settings.database.url.get_secret_value() == "postgresql://db/x"
    assert settings.cache.url.get_secret_value() == "redis://cache"
    assert (machine.postgres, machine.valkey) == (None, None)
    await machine.stop()


def test_the_embedded_servers_own_addresses_are_not_external_ones(tmp_path: Path) -> None:
    """As in a shell that has read `demo.env` of the last run."""
    for place, password in (("postgres/cluster", "pg-secret"), ("valkey", "valkey-secret")):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "password").write_text(password)
    ours = {"DATABASE_URL": "postgresql://u:pg-secret@h/d", "REDIS_URL": "redis://:valkey-secret@h/0"}
    machine = Machine(tmp_path, ours)
    assert (machine.database_url, machine.cache_url) == ("", "")
    theirs = {"DATABASE_URL": "postgresql://u:other@h/d", "REDIS_URL": "redis://:other@h/0"}
    machine = Machine(tmp_path, theirs)
    assert (machine.database_url, machine.cache_url) == (theirs["DATABASE_URL"], theirs["REDIS_URL"])


def test_secrets_are_made_once_and_for_the_owner_only(tmp_path: Path) -> None:
    Machine(tmp_path, {})
    made = {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()}
    assert set(made) == {"internal_key", "key_pepper", "master_key"}
    assert len(set(made.values())) == 3
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    Machine(tmp_path, {})
    assert {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()} == made


async def test_cancelled_work_is_waited_for() -> None:
    began, may_end, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        may_end.wait(60)
        done.set()

    task = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(began.wait, 60)
    task.cancel()
    await asyncio.sleep(0.05)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done.is_set()


async def test_watching_ends_when_told(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"DATABASE_URL": "postgresql://db/x", "REDIS_URL": "redis://cache"})
    stopping = asyncio.Event()
    watch = asyncio.create_task(machine.watch(stopping))
    await asyncio.sleep(0)
    stopping.set()
    await watch
    assert watch.done()


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """Postgres, started by root, runs as another user, who may enter it."""
    with tempfile.TemporaryDirectory(prefix="tollway-machine-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


async def test_servers_that_die_are_started_again_where_they_were(open_directory: Path) -> None:
    machine = Machine(open_directory, {})
    await in_thread(machine.start_valkey)
    await in_thread(machine.start_postgres)
    assert machine.postgres is not None
    stopping = asyncio.Event()
    watch = asyncio.create_task(machine.watch(stopping))
    try:
        async with Redis.from_url(machine.cache_url) as cache:
            before = (await cache.info("server"))["process_id"]
        os.kill(before, signal.SIGKILL)
        postmaster = machine.postgres.home / "data" / "postmaster.pid"
        os.kill(int(postmaster.read_text().splitlines()[0]), signal.SIGQUIT)
        async with asyncio.timeout(180):
            while not await _answer(machine):  # noqa: ASYNC110  (the condition is in the servers)
                await asyncio.sleep(0.1)
        async with Redis.from_url(machine.cache_url) as cache:
            assert (await cache.info("server"))["process_id"] != before
    finally:
        stopping.set()
        await watch
        await machine.stop()


async def _answer(machine: Machine) -> bool:
    try:
        async with Redis.from_url(machine.cache_url) as cache:
            await cache.ping()
        await (await asyncpg.connect(machine.database_url)).close()
    except (OSError, RedisError, asyncpg.PostgresError):
        return False
    return True
