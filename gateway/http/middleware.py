"""The outermost layer: request ids, the last line of defence against exceptions, counts and one log line.

Pure ASGI. Every request that enters leaves with exactly one answer: a GatewayError is rendered, anything else
is a 500 that tells the caller its request id and nothing more. It knows no route.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from gateway.clock import Clock
from gateway.errors import GatewayError, InternalError
from gateway.exchange import ClientGone
from gateway.http.call import Call, ClientLeft, Receive, Scope, Send
from gateway.http.errors import render_error
from gateway.ids import IdSource
from gateway.obs.logging import bind_request, clear_request, get_logger
from gateway.obs.metrics import Children, Metrics

__all__ = ["Edge", "Handler"]

Handler = Callable[[Call], Awaitable[None]]
CLIENT_CLOSED = 499
"""In logs and metrics only: nobody was there to be answered."""

LAST_WORD_S = 5.0
"""How long the event that ends a broken stream may wait for a reader: longer would hold up a shutdown."""

_log = get_logger(__name__)


class Edge:
    """ASGI application around one handler."""

    def __init__(self, handler: Handler, ids: IdSource, clock: Clock, metrics: Metrics) -> None:
        self._handler = handler
        self._ids = ids
        self._clock = clock
        self._metrics = metrics
        self._in_flight = 0
        metrics.in_flight.set_function(lambda: self._in_flight)
        self._requests = Children(metrics.requests)
        self._request_seconds = Children(metrics.request_seconds)
        self._first_token_seconds = Children(metrics.first_token_seconds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", "lifespan is the application's, and there are no web sockets"
        call = Call(scope, receive, send, self._ids.new("req"), self._clock.monotonic)
        bind_request(call.request_id)
        self._in_flight += 1
        try:
            await self._handler(call)
        except GatewayError as error:
            await self._fail(call, error)
        except (ClientGone, ClientLeft):
            pass
        except Exception:
            _log.exception("unexpected error", path=call.endpoint or "unknown")
            self._metrics.unexpected_errors.labels(edge="http").inc()
            await self._fail(call, InternalError(call.request_id))
        finally:
            self._in_flight -= 1
            self._note(call)
            clear_request()

    async def _fail(self, call: Call, error: GatewayError) -> None:
        if call.status is None:
            await call.answer(*render_error(error))
        elif call.is_stream:
            try:
                async with asyncio.timeout(LAST_WORD_S):
                    await call.stream({}, call.error_event(error), last=True)
            except TimeoutError:  # nobody reads: the server drops the connection when the call returns
                _log.warning("the last event found no reader")

    def _note(self, call: Call) -> None:
        took_s = self._clock.monotonic() - call.started
        status = call.status or CLIENT_CLOSED
        if call.endpoint:
            safe = self._metrics.labels.safe
            owner = safe("tenant", call.tenant), safe("model", call.model)
            self._requests[*owner, call.endpoint, status].inc()
            self._request_seconds[owner].observe(took_s)
            if call.first_data_at is not None:
                self._first_token_seconds[owner].observe(call.first_data_at - call.started)
        _log.info(
            "request",
            method=call.method,
            endpoint=call.endpoint,
            status=status,
            tenant=call.tenant,
            model=call.model,
            ms=round(took_s * 1000, 1),
        )
