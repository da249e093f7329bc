"""The processes behind `tollway gateway`, `worker` and `pool`: an event loop, signals, a server around the app.

Place: between the command line and the composition roots. Knows no rule of what they serve or do.
"""

import asyncio
import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from pydantic import SecretStr

from gateway.clock import SystemClock
from gateway.db import Database
from gateway.http.protocol import BoundedProtocol
from gateway.http.server import Server
from gateway.ids import IdSource
from gateway.migrate import SchemaGuard, check_schema
from gateway.obs.metrics import Metrics, serve_metrics
from gateway.sessions.commands import put_password
from gateway.sessions.passwords import check_password
from gateway.settings import SecuritySettings, Settings
from gateway.tenancy import Peppers
from gateway.tenancy.bootstrap import bootstrap
from gateway.tenancy.keys import master_ring

__all__ = [
    "bootstrap_admin",
    "describe_api",
    "listening_socket",
    "serve_gateway",
    "serve_worker",
    "server_config",
    "set_password",
    "supervise",
]

BACKLOG = 2048
STALLED_PEER_S = 120
IDLE_CONNECTION_S = 75
"""Longer than clients keep theirs (httpx 5 s, aiohttp 15 s): who closes first must be the client, or a request that is
just being sent meets a closed connection."""
NOT_STARTED = 3
YOUNG_OBJECTS = 10_000
"""Made since the last small collection: a request makes a few thousand, and hardly any of them in a cycle."""


def serve_gateway(settings: Settings) -> None:
    """One process, one replica. SIGTERM: no new connections, running requests finish, settlements are written."""
    from gateway.app import create_app

    app = create_app(settings)
    serve_metrics(app.metrics, settings.server)
    asyncio.run(_refuse_old_schema(settings))
    config = server_config(app, settings)
    server = Server(config)
    _keep_imports()
    server.run(sockets=[listening_socket(config)])
    if not server.started:
        sys.exit(NOT_STARTED)


def server_config(app: Callable[..., Any], settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host=settings.server.host,
        port=settings.server.port,
        loop="uvloop",
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # the edge reads forwarded addresses itself, from trusted proxies only
        backlog=BACKLOG,
        timeout_keep_alive=IDLE_CONNECTION_S,
        timeout_graceful_shutdown=round(settings.server.drain_timeout_s),
    )


def _keep_imports() -> None:
    """What was imported stays for good, so no collection walks it again: 100 ms of every stream's silence each time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])


def listening_socket(config: uvicorn.Config) -> socket.socket:
    """Bound, and such that its connections end when their peer has read nothing for `STALLED_PEER_S`: a server that
    closes one still waits for what is in its buffers to be read, which a hostile peer never does."""
    listener = config.bind_socket()
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALLED_PEER_S * 1000)
    return listener


async def serve_worker(settings: Settings) -> None:
    from gateway.worker import run_worker

    metrics = Metrics()
    serve_metrics(metrics, settings.server)
    work = asyncio.create_task(run_worker(settings, metrics))
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, work.cancel)
    try:
        await work
    except asyncio.CancelledError:
        return


async def supervise(
    settings: Settings, *, drain_on_exit: bool, open_engines: bool, kubernetes: Path | None = None
) -> None:
    from gateway.pool.service import serve_pool

    await _refuse_old_schema(settings)
    await serve_pool(settings, drain_on_exit=drain_on_exit, open_engines=open_engines, kubernetes=kubernetes)


async def bootstrap_admin(
    settings: Settings, name: str, email: str | None = None, password: str | None = None
) -> str:
    """The first admin key's value. Raises `Conflict` when there is one already."""
    if password is not None:
        check_password(password, email)
    peppers = Peppers.from_settings(settings.security)
    database = Database.of(settings.database, name="tollway-admin", pool_size=1)
    clock = SystemClock()
    try:
        await check_schema(database)
        issued = await bootstrap(database, peppers, clock, IdSource(clock), os.urandom, name, email)
        if password is not None and email is not None:
            await put_password(database, master_ring(settings.security), clock, email, password)
    finally:
        await database.close()
    assert issued.value is not None, "a new key has its value"
    return issued.value


async def set_password(settings: Settings, who: str, password: str, email: str | None) -> str:
    """The id of the user whose password it is now; `email` becomes their address before."""
    database = Database.of(settings.database, name="tollway-admin", pool_size=1)
    try:
        await check_schema(database)
        ring = master_ring(settings.security)
        return await put_password(database, ring, SystemClock(), who, password, email)
    finally:
        await database.close()


def describe_api() -> str:
    """As docs/openapi.json holds it. Connects to nothing, and is the same whatever is configured."""
    from gateway.app import create_app
    from gateway.http.admin.access import PREFIX
    from gateway.http.admin.app import create_application
    from gateway.http.description import describe

    nobody = SecuritySettings(key_pepper=SecretStr("nothing is ever checked with this"))
    parts = create_app(Settings(security=nobody)).admin_parts()
    return json.dumps(describe(create_application(parts), PREFIX), indent=1, sort_keys=True) + "\n"


async def _refuse_old_schema(settings: Settings) -> None:
    """Said before anything starts. A database that is away is the process's own to wait for."""
    database = Database.of(settings.database, name="tollway-start", pool_size=1)
    try:
        await SchemaGuard(database).check()
    finally:
        await database.close()
