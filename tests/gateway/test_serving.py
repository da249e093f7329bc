"""The processes as an operator starts them: they serve, and SIGTERM ends them cleanly."""

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvicorn

from gateway.serving import STALLED_PEER_S, describe_api, listening_socket, serve_gateway, server_config
from gateway.settings import Settings
from tests.patience import PATIENT
from tests.ports import kept_port

WITHIN_S = 120.0


@pytest.fixture
def environ(database_url: str, cache_url: str, tmp_path: Path) -> Iterator[dict[str, str]]:
    ours = {
        **PATIENT,
        "DATABASE_URL": database_url,
        "REDIS_URL": cache_url,
        "TOLLWAY_SECURITY__KEY_PEPPER": "a pepper of the tests",
        "TOLLWAY_UPSTREAM__INTERNAL_KEY": "internal",
        "TOLLWAY_LEDGER__SPOOL_DIR": str(tmp_path / "spool"),
    }
    with kept_port() as port, kept_port() as metrics_port:
        ports = {"TOLLWAY_SERVER__PORT": str(port), "TOLLWAY_SERVER__METRICS_PORT": str(metrics_port)}
        yield dict(os.environ) | ours | ports


async def _start(name: str, environ: Mapping[str, str]) -> asyncio.subprocess.Process:
    command = (sys.executable, "-m", "gateway", name)
    return await asyncio.create_subprocess_exec(*command, env=environ, stdout=asyncio.subprocess.DEVNULL)


async def _get(url: str) -> tuple[int, str]:
    """Until somebody answers."""
    async with aiohttp.ClientSession() as client, asyncio.timeout(WITHIN_S):
        while True:
            try:
                async with client.get(url) as answer:
                    return answer.status, await answer.text()
            except aiohttp.ClientError:
                await asyncio.sleep(0.05)


async def test_the_gateway_serves_and_ends(environ: dict[str, str]) -> None:
    gateway = await _start("gateway", environ)
    try:
        status, _ = await _get(f"http://127.0.0.1:{environ['TOLLWAY_SERVER__PORT']}/healthz")
        assert status == 200
        _, metrics = await _get(f"http://127.0.0.1:{environ['TOLLWAY_SERVER__METRICS_PORT']}/metrics")
        assert "tollway_requests_in_flight" in metrics
    finally:
        gateway.terminate()
        code = await asyncio.wait_for(gateway.wait(), WITHIN_S)
    assert code in (0, -signal.SIGTERM)


async def test_the_worker_runs_and_ends(environ: dict[str, str]) -> None:
    worker = await _start("worker", environ)
    try:
        _, metrics = await _get(f"http://127.0.0.1:{environ['TOLLWAY_SERVER__METRICS_PORT']}/metrics")
        assert "tollway_outbox_rows" in metrics
    finally:
        worker.terminate()
        code = await asyncio.wait_for(worker.wait(), WITHIN_S)
    assert code == 0


def test_no_collection_walks_what_was_imported(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the time the server runs, the modules' objects are out of the collector's sight."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    seen: list[tuple[int, int]] = []

    def run(server: uvicorn.Server, sockets: list[socket.socket]) -> None:
        seen.append((gc.get_freeze_count(), len(gc.get_objects())))
        server.started = True
        for one in sockets:
            one.close()

    monkeypatch.setattr(uvicorn.Server, "run", run)
    try:
        serve_gateway(Settings())
    finally:
        gc.unfreeze()
    [(frozen, walked)] = seen
    assert frozen > 50_000 > walked


def test_connections_do_not_outlive_a_peer_that_reads_nothing() -> None:
    config = uvicorn.Config(lambda *_: None, host="127.0.0.1", port=0, log_config=None)
    with listening_socket(config) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()) as _, listener.accept()[0] as accepted:
            timeout_ms = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    assert timeout_ms == STALLED_PEER_S * 1000


async def test_an_idle_connection_outlives_what_clients_keep_theirs_for() -> None:
    """httpx, and so the OpenAI SDK, lets go after 5 s; a server that did so first would reset its next request."""
    config = server_config(_hello, Settings())
    config.lifespan, config.timeout_graceful_shutdown = "off", 1
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        running = asyncio.create_task(server.serve(sockets=[listener]))
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        for pause_s in (5.5, 0):
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            await reader.readuntil(b"hello")
            await asyncio.sleep(pause_s)
        server.should_exit = True
        writer.close()
        await running


async def _hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


def test_the_committed_description_is_what_is_served() -> None:
    """After a change of a route: `tollway openapi > docs/openapi.json`."""
    committed = Path(__file__).parents[2] / "docs" / "openapi.json"
    assert describe_api() == committed.read_text(encoding="utf-8")
