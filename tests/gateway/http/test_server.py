"""The server ends when it is told to, however long it would not have looked."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from typing import Any

import pytest
import uvicorn

from gateway.http import server as module
from gateway.http.server import Server


async def _hello(scope: Any, receive: Any, send: Any) -> None:
    headers = [(b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body"})


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_signal_ends_it_at_once(monkeypatch: pytest.MonkeyPatch, loop: Any) -> None:
    """A tick that never comes: only the signal can have ended it. And the answer before it has a date."""
    monkeypatch.setattr(module, "TICK_S", 10_000.0)
    config = uvicorn.Config(_hello, lifespan="off", log_config=None, access_log=False, ws="none", loop=loop)
    server, answers = Server(config), []
    # What it raises again at its end would end the tests.
    before = signal.signal(signal.SIGTERM, lambda *_: None)

    async def ask(listener: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answers.append(await reader.read())
        writer.close()
        os.kill(os.getpid(), signal.SIGTERM)

    async def run(listener: socket.socket) -> None:
        async with asyncio.timeout(60):
            await asyncio.gather(server.serve([listener]), ask(listener))

    try:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            _run(config, run(listener))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert b"\r\ndate: " in answers[0]
    assert server.should_exit


def _run(config: uvicorn.Config, work: Any) -> None:
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(work)
