"""A chat request over plain HTTP, for the tests of the request path."""

from __future__ import annotations

import json
from typing import Any

from gateway.routing import Prompt
from gateway.wire import CHAT, parse_generation
from tests.harness import SERVED, Gateway, Tenant

WORDS = "one two three four five"
BODY: dict[str, Any] = {"model": SERVED, "messages": [{"role": "user", "content": WORDS}]}
STREAM = {**BODY, "stream": True}
PROMPT = Prompt(parse_generation(CHAT, json.dumps(BODY).encode()), "salt")


async def ask(gateway: Gateway, tenant: Tenant, body: dict[str, Any]) -> tuple[int, bytes]:
    answer = await gateway.request("POST", "/v1/chat/completions", body, tenant.key)
    return answer.status, await answer.read()
