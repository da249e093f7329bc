"""Health, readiness, load, version and metrics: what probes, balancers and dashboards ask."""

from __future__ import annotations

import orjson

from engine import __version__
from engine.server.app import Access, Route
from engine.server.caller import Caller
from engine.server.errors import UNAVAILABLE, ApiError, draining, engine_unavailable
from engine.server.exchange import Exchange
from engine.server.services import Services


async def health(services: Services, exchange: Exchange, caller: Caller) -> None:
    """Fails only when a restart would help: the core's loop has stopped. Starting is healthy."""
    if services.hung:
        raise ApiError(503, UNAVAILABLE, "The engine's loop has stopped.", code="engine_hung")
    await exchange.reply(200, b"{}")


async def ready(services: Services, exchange: Exchange, caller: Caller) -> None:
    if services.state == "draining":
        raise draining()
    if services.state != "ready" or services.hung:
        raise engine_unavailable()
    await exchange.reply(200, b"{}")


async def version(services: Services, exchange: Exchange, caller: Caller) -> None:
    await exchange.reply(200, orjson.dumps({"version": __version__}))


async def load(services: Services, exchange: Exchange, caller: Caller) -> None:
    stats = services.bridge.load
    document = {
        "server_load": stats.num_running + stats.num_waiting,
        "running": stats.num_running,
        "waiting": stats.num_waiting,
        "waiting_tokens": stats.num_waiting_tokens,
        "kv_usage": stats.kv_usage,
        "predicted_queue_delay_s": stats.predicted_queue_delay_s,
        "predicted_ttft_s": stats.predicted_ttft_s,
        "sustainable_rps": stats.sustainable_rps,
        "step_s": stats.step_ms / 1000,
        "batch": {
            "rows": stats.batch_rows,
            "tokens": stats.batch_tokens,
            "prompt_tokens": stats.batch_prompt_tokens,
        },
        "refused": stats.num_refused,
    }
    await exchange.reply(200, orjson.dumps(document))


async def metrics(services: Services, exchange: Exchange, caller: Caller) -> None:
    body = services.metrics.render(services.bridge.load, services.bridge.ready)
    await exchange.reply(200, body.encode(), kind="text/plain; version=0.0.4; charset=utf-8")


ROUTES = (
    Route("GET", "/health", health, Access.PUBLIC),
    Route("GET", "/ready", ready, Access.PUBLIC),
    Route("GET", "/metrics", metrics, Access.PUBLIC),
    Route("GET", "/version", version),
    Route("GET", "/load", load),
)
