"""All routes of an engine, and the one that describes them."""

from __future__ import annotations

import json

from engine.server import embeddings, internal_routes, openai_routes, ops_routes, text_routes
from engine.server.app import Route
from engine.server.caller import Caller
from engine.server.exchange import Exchange
from engine.server.openapi import document
from engine.server.services import Services


def describe() -> str:
    """The OpenAPI document, as docs/engine-openapi.json has it."""
    return json.dumps(document(ROUTES), indent=1, ensure_ascii=False) + "\n"


async def openapi(services: Services, exchange: Exchange, caller: Caller) -> None:
    await exchange.reply(200, describe().encode())


ROUTES = (
    *openai_routes.ROUTES,
    *embeddings.ROUTES,
    *text_routes.ROUTES,
    *ops_routes.ROUTES,
    Route("GET", "/openapi.json", openapi),
    *internal_routes.ROUTES,
)
