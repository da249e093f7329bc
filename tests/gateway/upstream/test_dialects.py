"""What each dialect sends: the gateway's values win, unknown fields travel, nobody sets another's salt."""

from __future__ import annotations

import json
from typing import Any

from gateway.upstream.dialect import Order, dialect_of
from gateway.upstream.generic import GenericDialect
from gateway.upstream.native import NativeDialect
from gateway.wire.request import CHAT, COMPLETIONS, parse_generation

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


def sent(dialect: Any, **fields: Any) -> tuple[str, dict[str, str], dict[str, Any]]:
    request = parse_generation(CHAT, json.dumps(BODY | fields).encode())
    call = dialect.prepare("http://e", "key", request, ORDER)
    return call.url, dict(call.headers), json.loads(call.body)


def test_native() -> None:
    url, headers, body = sent(NativeDialect(), stream=True, priority=-5)
    assert url == "http://e/v1/chat/completions"
    assert body == {
        "model": "up",
        "messages": BODY["messages"],
        "new": 1,
        "stream": True,
        "stream_options": {"include_usage": True},
        "seed": 42,
    }
    assert headers == {
        "content-type": "application/json",
        "authorization": "Bearer key",
        "x-request-id": "req_1",
        "x-gateway-request-id": "req_1",
        "x-gateway-attempt": "1",
        "x-gateway-inference-fairness-id": "f",
        "x-fairness-weight": "3",
        "x-request-class": "interactive",
        "x-cache-salt": "ab",
        "x-max-prompt-tokens": "100",
        "x-max-output-tokens": "20",
    }


def test_generic_bounds_the_output_in_the_body_and_tells_nothing_internal() -> None:
    _, headers, body = sent(GenericDialect())
    assert body["max_tokens"] == 20
    assert "cache_salt" not in body
    assert set(headers) == {"content-type", "authorization", "x-request-id"}
    assert "max_tokens" not in sent(GenericDialect(), max_completion_tokens=20)[2]
    assert sent(GenericDialect(), max_completion_tokens=99)[2]["max_completion_tokens"] == 20


def test_other_stream_options_are_kept() -> None:
    options = {"include_usage": False, "continuous_usage_stats": True}
    body = sent(GenericDialect(), stream=True, stream_options=options)[2]
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}


def test_completions_path() -> None:
    request = parse_generation(COMPLETIONS, b'{"model": "m", "prompt": "x"}')
    assert NativeDialect().prepare("http://e", None, request, ORDER).url == "http://e/v1/completions"


def test_an_unknown_kind_speaks_plain_openai() -> None:
    dialects = {"tollway": NativeDialect(), "openai": GenericDialect()}
    assert isinstance(dialect_of("tollway", dialects), NativeDialect)
    assert isinstance(dialect_of("vllm", dialects), GenericDialect)
