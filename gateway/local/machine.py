"""What `tollway up` has started on this machine, and how it is stopped again: callers first, servers last.

Place: under `up`. Owns the servers and the parts; knows the order of stopping, not of starting.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

from gateway.local import postgres, valkey
from gateway.local.parts import Part
from gateway.local.postgres import EmbeddedPostgres
from gateway.local.secret import secret_in
from gateway.local.valkey import EmbeddedValkey
from gateway.pool.local import LocalLauncher
from gateway.pool.process import port_is_free
from gateway.settings import Settings

__all__ = ["Machine", "in_thread"]

DRAIN_S = 20
STOP_S = DRAIN_S + 20.0
_CHECK_S = 0.5
T = TypeVar("T")


class Machine:
    def __init__(self, home: Path, environ: Mapping[str, str]) -> None:
        self.home = home
        self.run_dir = home / "run"
        # A shell that has read `demo.env` still names the embedded servers: those are ours to start.
        database_url, cache_url = environ.get("DATABASE_URL", ""), environ.get("REDIS_URL", "")
        self.database_url = "" if postgres.is_own_url(home / "postgres", database_url) else database_url
        self.cache_url = "" if valkey.is_own_url(home, cache_url) else cache_url
        self.postgres: EmbeddedPostgres | None = None
        self.valkey: EmbeddedValkey | None = None
        self.parts: dict[str, Part] = {}
        self._environ = environ
        self._engine_key = secret_in(_secret(home, "internal_key"))
        for name in ("key_pepper", "master_key"):
            secret_in(_secret(home, name))

    @property
    def pepper_file(self) -> str:
        return str(_secret(self.home, "key_pepper"))

    def start_postgres(self) -> None:
        self.postgres = EmbeddedPostgres(self.home / "postgres")
        self.postgres.start()
        self.postgres.ensure_database()
        self.database_url = self.postgres.url()

    def start_valkey(self) -> None:
        self.valkey = EmbeddedValkey(self.home)
        self.valkey.start()
        self.cache_url = self.valkey.url()

    def settings(self) -> Settings:
        """The parts' settings, for what `up` does itself."""
        return Settings.model_validate(
            {
                "database": {"url": self.database_url},
                "cache": {"url": self.cache_url},
                "security": {
                    "key_pepper_file": _secret(self.home, "key_pepper"),
                    "master_key_file": _secret(self.home, "master_key"),
                },
            }
        )

    async def start_part(self, name: str, *flags: str, port: int | None = None) -> None:
        command = (sys.executable, "-m", "gateway", name, *flags)
        part = Part(name, command, self._part_environ(port), self.home)
        self.parts[name] = part
        await part.start()

    async def watch(self, stopping: asyncio.Event, note: Callable[[], Awaitable[None]] | None = None) -> None:
        """Until told to stop, or something cannot be kept running. `note` is called each time all is well."""
        while not stopping.is_set():
            for part in self.parts.values():
                part.check()
            for server in (self.postgres, self.valkey):
                if server is not None and port_is_free(server.port):
                    await in_thread(server.start)  # it has died: the parts wait for it at its address
            if note is not None:
                await note()
            try:
                await asyncio.wait_for(stopping.wait(), _CHECK_S)
            except TimeoutError:
                continue

    async def stop(self) -> None:
        """The gateway finishes its streams, then engines drain, then the worker has the last word."""
        for name in ("gateway", "pool", "worker"):
            if name in self.parts:
                await self.parts[name].stop(STOP_S)
        await self._end_engines()
        await in_thread(self._stop_servers)

    def kill(self) -> None:
        """The second Ctrl-C: nothing is waited for. `stop` goes on and finds them ended."""
        for part in self.parts.values():
            part.kill()

    async def _end_engines(self) -> None:
        """Whatever a supervisor that was killed could not drain."""
        launcher = LocalLauncher(self.run_dir, key=self._engine_key)
        for replica in await launcher.strays([]):
            await launcher.kill(replica, None)

    def _stop_servers(self) -> None:
        if self.valkey is not None:
            self.valkey.stop()
        if self.postgres is not None:
            self.postgres.stop()

    def _part_environ(self, port: int | None) -> dict[str, str]:
        fixed = {
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.cache_url,
            "TOLLWAY_SECURITY__KEY_PEPPER_FILE": self.pepper_file,
            "TOLLWAY_SECURITY__MASTER_KEY_FILE": str(_secret(self.home, "master_key")),
            "TOLLWAY_UPSTREAM__INTERNAL_KEY_FILE": str(_secret(self.home, "internal_key")),
            "TOLLWAY_POOL__RUN_DIR": str(self.run_dir),
            "TOLLWAY_LEDGER__SPOOL_DIR": str(self.home / "spool"),
            "TOLLWAY_SERVER__FILES": str(self.home / "files"),
        }
        if port is not None:
            fixed["TOLLWAY_SERVER__PORT"] = str(port)
        preferred = {
            "TOLLWAY_SERVER__DRAIN_TIMEOUT_S": str(DRAIN_S),
            "TOLLWAY_POOL__DRAIN_TIMEOUT_S": str(DRAIN_S),
        }
        return preferred | dict(self._environ) | fixed


async def in_thread(work: Callable[[], T]) -> T:
    """Run blocking work; a cancelled caller still waits for it, so that nothing starts behind its back."""
    task = asyncio.create_task(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _secret(home: Path, name: str) -> Path:
    directory = home / "secrets"
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory / name
