"""Orders, requests and headers for the upstream's tests."""

from __future__ import annotations

import json
from typing import Any

from gateway.upstream.dialect import Order
from gateway.wire.request import CHAT, Endpoint, parse_generation
from tests.fakes.engine import FakeEngine

ORDER = Order(
    request_id="req_1",
    attempt=1,
    upstream_model="up",
    fairness_id="f",
    fairness_weight=3,
    request_class="interactive",
    cache_salt="ab",
    max_prompt_tokens=100,
    max_output_tokens=20,
    seed=42,
)


BODY = {"model": "served", "messages": [{"role": "user", "content": "x"}], "cache_salt": "theirs", "new": 1}


def sent(
    dialect: Any, endpoint: Endpoint = CHAT, **fields: Any
) -> tuple[str, dict[str, str], dict[str, Any]]:
    request = parse_generation(endpoint, json.dumps(BODY | fields).encode())
    call = dialect.prepare("http://e", "key", request, ORDER)
    return call.url, dict(call.headers), json.loads(call.body)


def headers(engine: FakeEngine, **extra: str) -> dict[str, str]:
    return {"authorization": f"Bearer {engine.api_key}", "content-type": "application/json", **extra}
