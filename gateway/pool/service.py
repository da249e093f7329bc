"""The pool process: `tollway pool` puts a supervisor together and runs it until it is told to stop.

Place: the composition root of the pools. Knows the settings; decides nothing about replicas.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from gateway.clock import SystemClock
from gateway.db import Database
from gateway.obs.metrics import Metrics, serve_metrics
from gateway.pool.access import PoolAccess
from gateway.pool.actor import JournalDir
from gateway.pool.launcher import Launcher
from gateway.pool.local import LocalLauncher
from gateway.pool.plan import Limits
from gateway.pool.probe import Probe
from gateway.pool.spec import EngineKind
from gateway.pool.static import StaticLauncher
from gateway.pool.supervisor import Supervisor
from gateway.settings import Settings, SettingsError
from gateway.tenancy.keys import master_ring

__all__ = ["serve_pool"]

RESTART_BACKOFF_MAX_S = 60.0


async def serve_pool(
    settings: Settings, *, drain_on_exit: bool, open_engines: bool, kubernetes: Path | None = None
) -> None:
    """Supervise this node's replicas, or with `kubernetes` those of the cluster around it. `drain_on_exit` ends them too;
    otherwise the next supervisor adopts them. `open_engines`: they answer on loopback without a key (never their internal
    routes)."""
    key = settings.upstream.engine_key()
    if key is None:
        raise SettingsError("set TOLLWAY_UPSTREAM__INTERNAL_KEY_FILE: engines trust the gateway by it")
    async with AsyncExitStack() as stack:
        metrics = Metrics()
        node = await _node(stack, settings, key, open_engines, kubernetes)
        serve_metrics(metrics, settings.server)
        database = Database.of(settings.database, name="tollway-pool", pool_size=2)
        stack.push_async_callback(database.close)
        probe = Probe(key)
        stack.push_async_callback(probe.close)
        supervisor = Supervisor(
            database,
            node.launchers,
            probe,
            PoolAccess(lambda: master_ring(settings.security), os.urandom),
            node=node.name,
            limits=Limits(
                settings.pool.ready_timeout_s, settings.pool.drain_timeout_s, RESTART_BACKOFF_MAX_S
            ),
            clock=SystemClock(),
            metrics=metrics,
            journal_dir=node.journal_dir,
        )
        stopping = asyncio.Event()
        for signum in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(signum, stopping.set)
        await supervisor.run(stopping, drain=drain_on_exit)


@dataclass(frozen=True, slots=True)
class _Node:
    """What one supervisor's replicas run on."""

    name: str
    launchers: Mapping[EngineKind, Launcher]
    journal_dir: JournalDir


async def _node(
    stack: AsyncExitStack, settings: Settings, key: str, open_engines: bool, kubernetes: Path | None
) -> _Node:
    if kubernetes is None:
        local = LocalLauncher(settings.pool.run_dir, key=key, open_engines=open_engines)
        return _Node(socket.gethostname(), _launchers(local), lambda one: str(local.journal_dir(one)))
    from gateway.pool.cluster.connect import connect  # the client takes seconds to import

    try:
        cluster, namespace = await connect(stack, kubernetes, settings.pool)
    except ValueError as error:
        raise SettingsError(str(error)) from None
    # By its namespace: whichever of several supervisors holds the lease has all replicas there.
    return _Node(f"kubernetes/{namespace}", _launchers(cluster), lambda _: None)


def _launchers(ours: Launcher) -> Mapping[EngineKind, Launcher]:
    return {"tollway": ours, "vllm": ours, "sglang": ours, "external": StaticLauncher()}
