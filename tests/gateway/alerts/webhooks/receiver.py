"""A real receiver: keeps what it is sent, and answers as it is told to."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from gateway.alerts.webhooks.guard import Guard
from gateway.alerts.webhooks.sender import Sender
from gateway.clock import Clock

__all__ = ["Received", "Receiver", "sending", "serve_receiver"]


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


@dataclass
class Receiver:
    """`answers` are given to the next requests, the last one to all that follow. While `gate` is shut, requests hang."""

    answers: list[web.Response | int] = field(default_factory=lambda: [200])
    taken: list[Received] = field(default_factory=list)
    gate: asyncio.Event | None = None
    port: int = 0
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/hook"

    async def handle(self, request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.taken.append(Received(request.path_qs, headers, await request.read()))
        if self.gate is not None:
            await self.gate.wait()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return _fresh(answer)


@asynccontextmanager
async def serve_receiver(
    receiver: Receiver | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Receiver]:
    receiver = receiver or Receiver()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", receiver.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    receiver.port = runner.addresses[0][1]
    receiver.scheme = "https" if tls is not None else "http"
    try:
        yield receiver
    finally:
        if receiver.gate is not None:
            receiver.gate.set()
        await runner.cleanup()


@asynccontextmanager
async def sending(guard: Guard, clock: Clock, **options: Any) -> AsyncIterator[Sender]:
    """No time limit that the test does not set."""
    sender = Sender(guard, clock, **{"timeout_s": 60.0, "answer_timeout_s": 60.0, **options})
    await sender.start()
    try:
        yield sender
    finally:
        await sender.close()


def _fresh(answer: Any) -> web.Response:
    """An answer object serves once."""
    if isinstance(answer, int):
        return web.Response(status=answer)
    return web.Response(status=answer.status, headers=answer.headers, body=answer.body)
