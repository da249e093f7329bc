"""How a FakeEngine answers over HTTP: JSON, a refusal, a cut connection."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from tests.fakes import replies
from tests.fakes.script import Refusal


def as_json(status: int, body: Any) -> web.Response:
    return web.Response(status=status, body=json.dumps(body).encode(), content_type="application/json")


def refuse(refusal: Refusal) -> web.Response:
    response = as_json(refusal.status, replies.error(refusal.message, refusal.type, refusal.code))
    if refusal.retry_after_s is not None:
        response.headers["retry-after"] = str(refusal.retry_after_s)
    return response


def cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
