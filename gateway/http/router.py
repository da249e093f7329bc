"""Path → handler, with the table's 404 and 405. Exact paths, one pattern for what has an id, and whole trees."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from urllib.parse import unquote

from gateway.errors import MethodNotAllowed, UnknownUrl
from gateway.http.batch_routes import BatchRoutes
from gateway.http.call import Call
from gateway.http.console import PREFIX as CONSOLE_PREFIX
from gateway.http.console import ConsoleFiles
from gateway.http.file_routes import FileRoutes
from gateway.http.middleware import Handler
from gateway.http.openai_routes import OpenAIRoutes
from gateway.http.ops_routes import OpsRoutes
from gateway.http.playground_routes import PlaygroundRoutes
from gateway.http.webhook_routes import WebhookRoutes

__all__ = ["Router"]

MODELS_PREFIX = "/v1/models"
ADMIN_PREFIX = "/v1/organization"
_CHAT_OF = re.compile(rf"{ADMIN_PREFIX}/projects/([^/]+)/chat/completions")
_ONE_OF = re.compile(r"/v1/(files|batches|webhook_endpoints)/([A-Za-z0-9_-]{1,200})(?:/([a-z_]+))?")


class Router:
    def __init__(
        self,
        openai: OpenAIRoutes,
        files: FileRoutes,
        batches: BatchRoutes,
        webhooks: WebhookRoutes,
        ops: OpsRoutes,
        admin: Handler,
        playground: PlaygroundRoutes,
    ) -> None:
        self._openai = openai
        self._playground = playground
        self._admin = admin
        console = ConsoleFiles()
        self._handlers: Mapping[str, Mapping[str, Handler]] = {
            "/v1/chat/completions": {"POST": openai.chat_completions},
            "/v1/completions": {"POST": openai.completions},
            "/v1/embeddings": {"POST": openai.embeddings},
            "/v1/responses": {"POST": openai.responses},
            "/v1/models": {"GET": openai.models},
            "/v1/files": {"GET": files.list, "POST": files.create},
            "/v1/batches": {"GET": batches.list, "POST": batches.create},
            "/v1/webhook_endpoints": {"GET": webhooks.list, "POST": webhooks.create},
            "/v1/webhook_event_types": {"GET": webhooks.event_types},
            "/healthz": {"GET": ops.healthz},
            "/readyz": {"GET": ops.readyz},
            "/metrics": {"GET": ops.metrics},
            "/": {"GET": console, "HEAD": console},
        }
        self._parts: Mapping[tuple[str, str | None], Mapping[str, Callable[[Call, str], Awaitable[None]]]] = {
            ("files", None): {"GET": files.retrieve, "DELETE": files.delete},
            ("files", "content"): {"GET": files.content},
            ("batches", None): {"GET": batches.retrieve},
            ("batches", "cancel"): {"POST": batches.cancel},
            ("webhook_endpoints", None): {
                "GET": webhooks.retrieve,
                "POST": webhooks.update,
                "DELETE": webhooks.delete,
            },
            ("webhook_endpoints", "rotate_secret"): {"POST": webhooks.rotate_secret},
            ("webhook_endpoints", "test"): {"POST": webhooks.test},
        }

        self._trees: Mapping[str, Handler] = {
            MODELS_PREFIX: self._model,
            ADMIN_PREFIX: self._organization,
            CONSOLE_PREFIX: console,
        }

    @property
    def routes(self) -> frozenset[str]:
        """`METHOD /path` of everything that is served; `* /path/*` is a tree, whose handler sees to the methods."""
        exact = {(method, path) for path, handlers in self._handlers.items() for method in handlers}
        parts = {
            (method, f"/v1/{kind}/{{id}}" + (f"/{part}" if part is not None else ""))
            for (kind, part), handlers in self._parts.items()
            for method in handlers
        }
        trees = {("*", f"{root}/*") for root in self._trees}
        return frozenset(" ".join(route) for route in exact | parts | trees)

    async def __call__(self, call: Call) -> None:
        handlers = self._handlers.get(call.path)
        if handlers is not None:
            await _allowed(call, handlers)(call)
        elif (found := _ONE_OF.fullmatch(call.path)) is not None:
            await self._one(call, *found.groups())
        elif (chat := _CHAT_OF.fullmatch(call.path)) is not None:
            await _allowed(call, {"POST": partial(self._playground.chat, project_id=chat[1])})(call)
        else:
            await self._tree(call)(call)

    def _tree(self, call: Call) -> Handler:
        for root, handler in self._trees.items():
            if call.path == root or call.path.startswith(root + "/"):
                return handler
        raise UnknownUrl(call.method, call.path)

    async def _one(self, call: Call, kind: str, id: str, part: str | None) -> None:
        """One file, batch or endpoint, or a part of it."""
        handlers = self._parts.get((kind, part))
        if handlers is None:
            raise UnknownUrl(call.method, call.path)
        handler = handlers.get(call.method)
        if handler is None:
            raise MethodNotAllowed(call.method, call.path, ", ".join(handlers))
        await handler(call, id)

    async def _model(self, call: Call) -> None:
        """Served names may hold slashes, so the rest of the path is the name."""
        name = unquote(call.path[len(MODELS_PREFIX) + 1 :])
        if not name:
            raise UnknownUrl(call.method, call.path)
        await _allowed(call, {"GET": partial(self._openai.model, name=name)})(call)

    async def _organization(self, call: Call) -> None:
        call.endpoint = "admin"
        await self._admin(call)


def _allowed(call: Call, handlers: Mapping[str, Handler]) -> Handler:
    handler = handlers.get(call.method)
    if handler is None:
        raise MethodNotAllowed(call.method, call.path, ", ".join(handlers))
    return handler
