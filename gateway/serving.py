"""The processes that `tollway gateway` and `tollway worker` are: an event loop, signals, a server around the app.

Place: between the command line and the composition roots. Knows no rule of what they serve or do.
"""

import asyncio
import os
import signal

import uvicorn
from prometheus_client import start_http_server

from gateway.clock import SystemClock
from gateway.db import Database
from gateway.ids import IdSource
from gateway.obs.metrics import Metrics
from gateway.settings import Settings
from gateway.tenancy import Peppers
from gateway.tenancy.bootstrap import bootstrap

__all__ = ["bootstrap_admin", "serve_gateway", "serve_worker"]

BACKLOG = 2048


def serve_gateway(settings: Settings) -> None:
    """One process, one replica. SIGTERM: no new connections, running requests finish, settlements are written."""
    from gateway.app import create_app

    app = create_app(settings)
    _serve_metrics(settings, app.metrics)
    uvicorn.run(
        app,
        host=settings.server.host,
        port=settings.server.port,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # the edge reads forwarded addresses itself, from trusted proxies only
        backlog=BACKLOG,
        timeout_graceful_shutdown=round(settings.server.drain_timeout_s),
    )


async def serve_worker(settings: Settings) -> None:
    from gateway.worker import run_worker

    metrics = Metrics()
    _serve_metrics(settings, metrics)
    work = asyncio.create_task(run_worker(settings, metrics))
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, work.cancel)
    try:
        await work
    except asyncio.CancelledError:
        return


async def bootstrap_admin(settings: Settings, name: str) -> str:
    """The first admin key's value. Raises `Conflict` when there is one already."""
    database = Database.of(settings.database, name="tollway-admin", pool_size=1)
    clock = SystemClock()
    try:
        peppers = Peppers.from_settings(settings.security)
        issued = await bootstrap(database, peppers, clock, IdSource(clock), os.urandom, name)
    finally:
        await database.close()
    assert issued.value is not None, "a new key has its value"
    return issued.value


def _serve_metrics(settings: Settings, metrics: Metrics) -> None:
    """On a port of their own, when one is set."""
    if settings.server.metrics_port is not None:
        start_http_server(settings.server.metrics_port, addr=settings.server.host, registry=metrics.registry)
