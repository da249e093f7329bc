"""The ASGI application: one table of routes, the key check, and the edge where exceptions become answers.

Every route is denied without a key unless its row says otherwise. What the routes do is in the `*_routes` modules.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from engine.server.caller import Caller, identify
from engine.server.errors import INVALID_REQUEST, ApiError, internal_error, not_found
from engine.server.exchange import Exchange, Receive, Scope, Send
from engine.server.services import Services

_LOG = logging.getLogger(__name__)

Handler = Callable[[Services, Exchange, Caller], Awaitable[None]]


class Access(Enum):
    PUBLIC = "no key"
    KEY = "any key"
    INTERNAL = "the internal key"


@dataclass(frozen=True, slots=True)
class Route:
    """`path` ends with `/*` when a name follows, which may have slashes itself. HEAD goes where GET goes."""

    method: str
    path: str
    handler: Handler
    access: Access = Access.KEY


class EngineApp:
    def __init__(self, services: Services, routes: Iterable[Route]) -> None:
        self._services = services
        self._routes: dict[str, dict[str, Route]] = {}
        for route in routes:
            self._routes.setdefault(route.path, {})[route.method] = route
        self._prefixes = [path.removesuffix("*") for path in self._routes if path.endswith("/*")]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", "uvicorn runs without lifespan and websockets"
        exchange = Exchange(scope, receive, send)
        exchange.reply_headers.update({"x-tollway-ignored": "", **self._services.load_headers()})
        try:
            await self._serve(exchange)
        except ApiError as error:
            await self._refuse(exchange, error)
        except ConnectionError:
            _LOG.info("%s %.200r: the caller went away", exchange.method, exchange.path)
        except Exception:
            self._services.metrics.count("engine_internal_errors")
            _LOG.exception("%s %.200r failed", exchange.method, exchange.path)
            await self._refuse(exchange, internal_error())

    async def _serve(self, exchange: Exchange) -> None:
        services = self._services
        public = self._routes.get(exchange.path, {}).get(_method(exchange))
        is_public = public is not None and public.access is Access.PUBLIC
        under_internal = exchange.path.startswith("/internal")
        # Before the look-up: without a key nobody learns which routes there are.
        internal = False if is_public else services.keys.check(exchange, internal_only=under_internal)
        caller = identify(exchange, internal=internal, draw_id=services.draw_id)
        exchange.reply_headers["x-request-id"] = caller.request_id
        route = self._find(exchange)
        assert route.access is not Access.INTERNAL or caller.internal, "checked by path"
        await route.handler(services, exchange, caller)

    def _find(self, exchange: Exchange) -> Route:
        path = exchange.path
        prefix = next((prefix for prefix in self._prefixes if path.startswith(prefix)), None)
        methods = self._routes.get(path if prefix is None else f"{prefix}*")
        if methods is None:
            raise not_found(f"Unknown route: {exchange.method} {exchange.path[:200]}.")
        route = methods.get(_method(exchange))
        if route is None:
            message = f"{exchange.method} is not allowed here."
            raise ApiError(405, INVALID_REQUEST, message, headers={"allow": ", ".join(sorted(methods))})
        return route

    async def _refuse(self, exchange: Exchange, error: ApiError) -> None:
        """Render an error, if the answer has not begun; otherwise the connection is cut, since a second
        answer would be taken for a part of the first."""
        exchange.reply_headers.setdefault("x-request-id", f"req-{self._services.draw_id()}")
        if exchange.disconnected:
            return
        if not exchange.started:
            await exchange.reply(error.status, error.body(), headers=error.headers)
        else:
            raise error


def _method(exchange: Exchange) -> str:
    """The server drops the body of an answer to HEAD."""
    return "GET" if exchange.method == "HEAD" else exchange.method
