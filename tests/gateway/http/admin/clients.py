"""The stock client as an administrator uses it: every answer validated against the client's own types."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.harness import Gateway


def admin_client(gateway: Gateway, key: str | None = None) -> openai.AsyncOpenAI:
    """What it is answered is compared with the description of the API as well."""
    client = openai.AsyncOpenAI(
        admin_api_key=key or gateway.admin_key,
        base_url=f"{gateway.url}/v1",
        max_retries=0,
        _strict_response_validation=True,
        http_client=described(gateway),
    )
    gateway.adopt(client)
    return client


def described(gateway: Gateway) -> Any:
    """The transport of a client, with each answer compared with the description."""

    async def check(answer: Any) -> None:
        body, asked = await answer.aread(), answer.request
        gateway.description.check(
            asked.method, asked.url.path, answer.status_code, answer.headers["content-type"], body
        )

    return openai.DefaultAsyncHttpxClient(event_hooks={"response": [check]})


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
