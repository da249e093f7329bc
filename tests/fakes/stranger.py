"""An OpenAI-compatible server of somebody else: its own key, https if wanted, and no word of our contract.

Every request that it is sent is kept with its Authorization, its Host and, over https, the name that was asked for.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from aiohttp import web

from tests.fakes import replies
from tests.fakes.answers import as_json

__all__ = ["Asked", "Stranger"]

LOAD = "vllm:num_requests_running 3\nvllm:num_requests_waiting 4\n"


@dataclass
class Asked:
    path: str
    authorization: str | None
    host: str
    body: dict[str, Any] = field(default_factory=dict)


class Stranger:
    def __init__(self, api_key: str | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.model = "their-model"
        self.api_key = api_key
        self.asked: list[Asked] = []
        self.names: list[str | None] = []
        """What clients called this server when the connection was made (SNI)."""
        self._tls = tls
        self._runner: web.AppRunner | None = None
        self.port = 0
        if tls is not None:
            tls.sni_callback = lambda _socket, name, _context: self.names.append(name)

    async def __aenter__(self) -> Stranger:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.05)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=self._tls).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, kind: type | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    def url(self, host: str = "127.0.0.1") -> str:
        return f"http{'s' if self._tls is not None else ''}://{host}:{self.port}"

    def keys(self, path: str) -> set[str | None]:
        """The Authorizations that a path was asked with."""
        return {one.authorization for one in self.asked if one.path == path}

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json() if request.can_read_body else {}
        self.asked.append(Asked(request.path, request.headers.get("authorization"), request.host, body))
        if self.api_key is not None and request.headers.get("authorization") != f"Bearer {self.api_key}":
            return as_json(401, replies.error("Wrong key.", "invalid_request_error", "invalid_api_key"))
        if request.path == "/metrics":
            return web.Response(text=LOAD)
        if request.path == "/v1/models":
            return as_json(200, {"object": "list", "data": [replies.model(self.model)]})
        return as_json(
            200,
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": 1,
                "model": self.model,
                "choices": [
                    {
                        "index": 0,
                        "message": {"role": "assistant", "content": "yes"},
                        "finish_reason": "stop",
                        "logprobs": None,
                    }
                ],
                "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
            },
        )
