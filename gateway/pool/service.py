"""The pool process: `tollway pool` puts a supervisor together and runs it until it is told to stop.

Place: the composition root of the pools. Knows the settings; decides nothing about replicas.
"""

import asyncio
import os
import signal
import socket

from gateway.clock import SystemClock
from gateway.db import Database
from gateway.obs.metrics import Metrics, serve_metrics
from gateway.pool.access import PoolAccess
from gateway.pool.local import LocalLauncher
from gateway.pool.plan import Limits
from gateway.pool.probe import Probe
from gateway.pool.static import StaticLauncher
from gateway.pool.supervisor import Supervisor
from gateway.settings import Settings, SettingsError
from gateway.tenancy.keys import master_ring

__all__ = ["serve_pool"]

RESTART_BACKOFF_MAX_S = 60.0


async def serve_pool(settings: Settings, *, drain_on_exit: bool, open_engines: bool) -> None:
    """Supervise this node's replicas. `drain_on_exit` ends them too; otherwise the next supervisor adopts
    them. `open_engines`: they answer on loopback without a key (never their internal routes)."""
    key = settings.upstream.engine_key()
    if key is None:
        raise SettingsError("set TOLLWAY_UPSTREAM__INTERNAL_KEY_FILE: engines trust the gateway by it")
    local = LocalLauncher(settings.pool.run_dir, key=key, open_engines=open_engines)
    metrics = Metrics()
    serve_metrics(metrics, settings.server)
    database = Database.of(settings.database, name="tollway-pool", pool_size=2)
    probe = Probe(key)
    supervisor = Supervisor(
        database,
        {"tollway": local, "vllm": local, "sglang": local, "external": StaticLauncher()},
        probe,
        PoolAccess(lambda: master_ring(settings.security), os.urandom),
        node=socket.gethostname(),
        limits=Limits(settings.pool.ready_timeout_s, settings.pool.drain_timeout_s, RESTART_BACKOFF_MAX_S),
        clock=SystemClock(),
        metrics=metrics,
        journal_dir=lambda replica: str(local.journal_dir(replica)),
    )
    stopping = asyncio.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, stopping.set)
    try:
        await supervisor.run(stopping, drain=drain_on_exit)
    finally:
        await probe.close()
        await database.close()
