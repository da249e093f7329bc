"""Two gateways, two engines with a tiny model, a worker, a durable Postgres and a Valkey, each to be killed.

Every process is started again when it ends. Gateways and worker reach Postgres through proxies that can be cut. The
failpoints of each process are armed through a directory of its own.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg

from engine.server import failpoints as engine_failpoints
from gateway.local.postgres import EmbeddedPostgres
from gateway.local.valkey import EmbeddedValkey
from gateway.migrate import migrate
from gateway.obs import failpoints as gateway_failpoints
from gateway.pool.process import ProcessMark
from gateway.settings import LimitSettings
from tests.fakes.tcp_proxy import TcpProxy
from tests.gateway.alerts.mailserver import Mailbox, serve_mail
from tests.harness import Gateway, Tenant
from tests.ports import keep_port

ROOT = Path(__file__).resolve().parents[3]
INTERNAL_KEY = "engine-key"
PEPPER = "pepper-of-the-tests-0123456789"
LEASE_S = 4
CONTEXT = 512
READY_S = 120.0
ALERT_PERCENTS = range(4, 100, 4)
"""Of each hard budget: a letter every now and then, as long as there is something to spend."""

_HISTORY = """
    CREATE TABLE budget_history (
        n bigserial, txid xid8 DEFAULT pg_current_xact_id(), budget_id text, period_key text, held bigint, spent bigint);
    CREATE FUNCTION keep_budget_history() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
        INSERT INTO budget_history (budget_id, period_key, held, spent)
        VALUES (NEW.budget_id, NEW.period_key, NEW.held_nanousd, NEW.spent_nanousd);
        RETURN NULL;
    END $$;
    CREATE TRIGGER keep_budget_history AFTER INSERT OR UPDATE ON budget_period
        FOR EACH ROW EXECUTE FUNCTION keep_budget_history();
"""


class Process:
    """A process that is started again when it ends, until `stop`."""

    def __init__(self, name: str, command: Iterable[str], environ: Mapping[str, str], home: Path) -> None:
        self.name = name
        self.log = home / f"{name}.log"
        self.points = home / f"{name}.points"
        self.points.mkdir(exist_ok=True)
        self.deaths: list[int] = []
        self._command = [sys.executable, "-m", *command]
        self._environ = {**os.environ, **environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                self._command,
                env=self._environ,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    def revive(self) -> bool:
        """Start it again if it has ended; whether it had."""
        if self._child is None or self._child.poll() is None:
            return False
        self.deaths.append(self._child.returncode)
        self.start()
        return True

    def send(self, signum: signal.Signals) -> None:
        """To this process alone, as a failpoint does. What it had started ends by itself."""
        if self._child is not None:
            self._child.send_signal(signum)

    def end(self, timeout_s: float) -> int | None:
        """SIGTERM; SIGKILL to the whole session when that takes too long. None if it had to be killed."""
        child, self._child = self._child, None
        if child is None:
            return None
        child.terminate()
        try:
            return child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    # -- failpoints ---------------------------------------------------------------------------------------

    def arm(self, point: str, action: str = "kill") -> None:
        draft = self.points / ".draft"
        draft.write_text(action)
        draft.rename(self.points / point)

    def disarm(self, point: str) -> bool:
        """Whether it had not been reached yet."""
        try:
            (self.points / point).unlink()
        except FileNotFoundError:
            return False
        return True

    def is_armed(self, point: str) -> bool:
        return (self.points / point).exists()

    def hits(self) -> list[str]:
        return [path.name.partition("@")[0] for path in self.points.glob("hit/*")]


@dataclass
class EngineSeat:
    """What the set-up needs to know of an engine that is not started yet."""

    port: int
    model: str = "tiny"
    epoch: str | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@dataclass
class TenantPlan:
    """A tenant and its budget: none, soft or hard (nano-USD)."""

    name: str
    limit: int | None = None
    is_hard: bool = True
    tenant: Tenant = field(init=False)


class Cluster:
    def __init__(
        self,
        home: Path,
        model: Path,
        plans: list[TenantPlan],
        *,
        num_engines: int = 2,
        num_gateways: int = 2,
        engine_flags: Iterable[str] = (),
    ) -> None:
        self.home = home
        self.plans = plans
        self.postgres = EmbeddedPostgres(home / "postgres")
        self.valkey = EmbeddedValkey(home)
        self._keepers = [keep_port() for _ in range(num_engines + num_gateways)]
        ports = [keeper.getsockname()[1] for keeper in self._keepers]
        self.seats = [EngineSeat(port) for port in ports[:num_engines]]
        self.gateway_ports = ports[num_engines:]
        self._engine_flags = tuple(engine_flags)
        self.mailbox = Mailbox()
        self._mail = contextlib.AsyncExitStack()
        self._model = model
        self._keeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await asyncio.to_thread(self.postgres.start)
        await asyncio.to_thread(self.postgres.ensure_database)
        await asyncio.to_thread(self.valkey.start)
        self.database_url = self.postgres.url()
        await migrate(self.database_url)
        self.gateways_proxy = TcpProxy(self.database_url)
        await self.gateways_proxy.restore()
        await self._configure()
        mail_port = await self._mail.enter_async_context(serve_mail(self.mailbox))
        self.engines = [self._engine(number) for number in range(len(self.seats))]
        self.gateways = [self._gateway(number) for number in range(len(self.gateway_ports))]
        self.worker = self._worker(mail_port)
        for process in self.processes:
            process.start()
        self._keeper = asyncio.create_task(self._keep())
        async with asyncio.timeout(READY_S):
            for url in [
                *(f"{seat.url}/ready" for seat in self.seats),
                *(f"{u}/readyz" for u in self.gateway_urls),
            ]:
                await until_ok(url)

    @property
    def processes(self) -> list[Process]:
        return [*self.engines, *self.gateways, self.worker]

    @property
    def gateway_urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.gateway_ports]

    def journal_dir(self, number: int) -> Path:
        return self.home / f"journal-{number}"

    async def sql(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        connection = await asyncpg.connect(self.database_url)
        try:
            return [dict(row) for row in await connection.fetch(statement, *values)]
        finally:
            await connection.close()

    async def engine_pids(self, number: int) -> dict[str, int]:
        """`pid` of the API process and `core_pid`; nothing while it does not answer."""
        headers = {"authorization": f"Bearer {INTERNAL_KEY}"}
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(1)) as client,
                client.get(f"{self.seats[number].url}/internal/status", headers=headers) as answer,
            ):
                status = await answer.json()
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return {}
        return {name: int(status[name]) for name in ("pid", "core_pid") if status.get(name)}

    async def crash_postgres(self) -> None:
        """SIGKILL of the postmaster, as a lost machine would; its children end with it."""
        lock = self.postgres.home / "data" / "postmaster.pid"
        postmaster = ProcessMark.of(int(lock.read_text().splitlines()[0]))
        assert postmaster is not None
        postmaster.send(signal.SIGKILL)
        await asyncio.sleep(1.0)
        if not postmaster.alive():  # where nobody collects it, its pid looks taken to the next one
            lock.unlink(missing_ok=True)
        await asyncio.to_thread(self.postgres.start)

    async def stop(self, timeout_s: float = 40.0) -> None:
        """Callers first, servers of state last; Postgres stays up for the audit."""
        await self._stop_keeper()
        for process in (*self.gateways, *self.engines, self.worker):
            await asyncio.to_thread(process.end, timeout_s)

    async def destroy(self) -> None:
        await self._stop_keeper()
        for process in getattr(self, "engines", []) + getattr(self, "gateways", []):
            process.end(0.0)
        if hasattr(self, "worker"):
            self.worker.end(0.0)
        if hasattr(self, "gateways_proxy"):
            await self.gateways_proxy.cut()
        await self._mail.aclose()
        await asyncio.to_thread(self.valkey.stop)
        await asyncio.to_thread(self.postgres.stop)
        for keeper in self._keepers:
            keeper.close()

    async def expect_letters(self, name: str, percent: int) -> None:
        """One for each hard budget, when so much of it is spent."""
        await self._execute(
            "INSERT INTO spend_alert (id, budget_id, threshold_percent, recipients, updated_at)"
            f" SELECT 'alert_{name}_' || id, id, {percent}, '{{ops@example.com}}', now() FROM budget WHERE is_hard"
        )

    # -- inside -------------------------------------------------------------------------------------------

    async def _configure(self) -> None:
        """Through the admin API of a gateway that is gone before the load begins."""
        limits = LimitSettings(requests_per_minute=0, tokens_per_minute=0, concurrent_requests=64)
        setup = Gateway(self.database_url, self.valkey.url(), self.home / "setup", "gw-setup", limits=limits)
        async with setup:
            pool_id = await setup.pool(*self.seats)  # type: ignore[arg-type]  # only address and names are read
            await setup.route(pool_id, default_max_output=64)
            await setup.admin(
                "POST", "/budgets", {"period": "monthly", "limit_nanousd": 1 << 60, "is_hard": False}
            )
            for plan in self.plans:
                plan.tenant = await setup.tenant(plan.name)
                if plan.limit is not None:
                    budget = {"project_id": plan.tenant.id, "period": "monthly", "limit_nanousd": plan.limit}
                    await setup.admin("POST", "/budgets", budget | {"is_hard": plan.is_hard})
        await self._execute(_HISTORY)
        for percent in ALERT_PERCENTS:
            await self.expect_letters(str(percent), percent)

    async def _execute(self, script: str) -> None:
        connection = await asyncpg.connect(self.database_url)
        try:
            await connection.execute(script)
        finally:
            await connection.close()

    def _process(self, name: str, command: Iterable[str], environ: Mapping[str, str]) -> Process:
        armed = {
            gateway_failpoints.DIRECTORY_VARIABLE: str(self.home / f"{name}.points"),
            gateway_failpoints.MODE_VARIABLE: "failpoints",
            engine_failpoints.DIRECTORY_VARIABLE: str(self.home / f"{name}.points"),
            engine_failpoints.MODE_VARIABLE: "failpoints",
        }
        return Process(name, command, {**armed, **environ}, self.home)

    def _gateway(self, number: int) -> Process:
        environ = self._gateway_environ(self.gateways_proxy.url) | {
            "TOLLWAY_SERVER__PORT": str(self.gateway_ports[number]),
            "TOLLWAY_SERVER__GATEWAY_ID": f"gw-{number}",
            "TOLLWAY_SERVER__DRAIN_TIMEOUT_S": "20",
        }
        return self._process(f"gateway-{number}", ("gateway", "gateway"), environ)

    def _worker(self, mail_port: int) -> Process:
        mail = {"HOST": "127.0.0.1", "PORT": str(mail_port), "TLS": "none", "TIMEOUT_S": "1"}
        environ = {f"TOLLWAY_MAIL__{name}": value for name, value in mail.items()}
        return self._process(
            "worker", ("gateway", "worker"), self._gateway_environ(self.database_url) | environ
        )

    def _gateway_environ(self, database_url: str) -> dict[str, str]:
        return {
            "DATABASE_URL": database_url,
            "REDIS_URL": self.valkey.url(),
            "TOLLWAY_SECURITY__KEY_PEPPER": PEPPER,
            "TOLLWAY_UPSTREAM__INTERNAL_KEY": INTERNAL_KEY,
            "TOLLWAY_LEDGER__SPOOL_DIR": str(self.home / "spool"),
            "TOLLWAY_LEDGER__JOURNAL_LAG_S": "2",
            "TOLLWAY_LIMITS__LEASE_TTL_S": str(LEASE_S),
        }

    def _engine(self, number: int) -> Process:
        seat = self.seats[number]
        journal = self.journal_dir(number)
        journal.mkdir()
        flags = {
            "--model": str(self._model),
            "--served-model-name": seat.model,
            "--port": str(seat.port),
            "--journal-dir": str(journal),
            "--max-model-len": str(CONTEXT),
            "--drain-grace-s": "0",
            "--drain-timeout-s": "10",
        }
        command = ("engine", "serve", *(part for pair in flags.items() for part in pair), *self._engine_flags)
        keys = {"TOLLWAY_ENGINE_INTERNAL_KEY": INTERNAL_KEY, "TOLLWAY_ENGINE_API_KEY": INTERNAL_KEY}
        return self._process(f"engine-{number}", command, keys)

    async def _keep(self) -> None:
        while True:
            for process in self.processes:
                process.revive()
            await asyncio.sleep(0.1)

    async def _stop_keeper(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
            self._keeper = None


async def until_ok(url: str) -> None:
    async with aiohttp.ClientSession() as client:
        while True:
            with contextlib.suppress(aiohttp.ClientError, OSError):
                async with client.get(url, timeout=aiohttp.ClientTimeout(2)) as answer:
                    if answer.status == 200:
                        return
            await asyncio.sleep(0.1)
