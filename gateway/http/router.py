"""Path → handler, with the table's 404 and 405. Exact paths and two prefixes; no patterns, no framework."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from gateway.errors import MethodNotAllowed, NotFound
from gateway.http.call import Call
from gateway.http.middleware import Handler
from gateway.http.openai_routes import OpenAIRoutes
from gateway.http.ops_routes import OpsRoutes

__all__ = ["Router"]

MODEL_PREFIX = "/v1/models/"
ADMIN_PREFIX = "/v1/organization"


class Router:
    def __init__(self, openai: OpenAIRoutes, ops: OpsRoutes, admin: Handler) -> None:
        self._openai = openai
        self._admin = admin
        self._handlers: Mapping[str, Mapping[str, Handler]] = {
            "/v1/chat/completions": {"POST": openai.chat_completions},
            "/v1/completions": {"POST": openai.completions},
            "/v1/embeddings": {"POST": openai.embeddings},
            "/v1/models": {"GET": openai.models},
            "/healthz": {"GET": ops.healthz},
            "/readyz": {"GET": ops.readyz},
            "/metrics": {"GET": ops.metrics},
        }

    async def __call__(self, call: Call) -> None:
        handlers = self._handlers.get(call.path)
        if handlers is not None:
            await _allowed(call, handlers)(call)
        elif call.path.startswith(MODEL_PREFIX) and len(call.path) > len(MODEL_PREFIX):
            _allowed(call, {"GET": self._model})
            await self._model(call)
        elif call.path == ADMIN_PREFIX or call.path.startswith(ADMIN_PREFIX + "/"):
            call.endpoint = "admin"
            await self._admin(call)
        else:
            raise NotFound(f"Invalid URL ({call.method} {call.path})")

    async def _model(self, call: Call) -> None:
        """Served names may hold slashes, so the rest of the path is the name."""
        await self._openai.model(call, unquote(call.path[len(MODEL_PREFIX) :]))


def _allowed(call: Call, handlers: Mapping[str, Handler]) -> Handler:
    handler = handlers.get(call.method)
    if handler is None:
        raise MethodNotAllowed(call.method, call.path, ", ".join(handlers))
    return handler
