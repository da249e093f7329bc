"""The stock client as an administrator uses it: every answer validated against the client's own types."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import openai
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.harness import Gateway


def admin_client(gateway: Gateway, key: str | None = None) -> openai.AsyncOpenAI:
    client = openai.AsyncOpenAI(
        admin_api_key=key or gateway.admin_key,
        base_url=f"{gateway.url}/v1",
        max_retries=0,
        _strict_response_validation=True,
    )
    gateway.adopt(client)
    return client


@asynccontextmanager
async def client_of_empty_answers() -> AsyncIterator[openai.AsyncOpenAI]:
    """A client, as strict as the other one, of a server that answers everything with `{}`."""

    async def empty(request: web.Request) -> web.Response:
        return web.json_response({})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", empty)
    async with TestServer(app) as server:
        client = openai.AsyncOpenAI(
            admin_api_key="none",
            base_url=str(server.make_url("/v1")),
            max_retries=0,
            _strict_response_validation=True,
        )
        async with client:
            yield client
