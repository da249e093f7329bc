"""Our own engine: internal headers, abort by request id, usage beside errors, a journal to ask.

Knows the gateway ↔ engine contract; not which tenant a fairness id stands for.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import orjson

from gateway.upstream.client import UpstreamClient, UpstreamError
from gateway.upstream.dialect import PATHS, Call, Figure, Order
from gateway.wire.continuation import Continuation
from gateway.wire.journal import read_figure
from gateway.wire.request import GenerationRequest, render

__all__ = ["NativeDialect"]

SIDE_CALL_TIMEOUT_S = 1.0
JOURNAL_PAGE = 1000
# A tenant must not set another's salt or jump the queue; the gateway's own values travel in headers.
CLIENT_MAY_NOT_SET = frozenset({"cache_salt", "priority"})


class NativeDialect:
    has_journal = True
    echoes_model = True
    can_resume = True

    def check(self, request: GenerationRequest) -> None:
        """The engine refuses by itself what it cannot do."""

    def prepare(self, base_url: str, key: str | None, request: GenerationRequest, order: Order) -> Call:
        changes: dict[str, Any] = {"model": order.upstream_model}
        if order.seed is not None:
            changes["seed"] = order.seed
        if request.stream:
            changes["stream_options"] = with_usage(request)
        headers = {
            "content-type": "application/json",
            "x-request-id": order.request_id,
            "x-gateway-request-id": order.request_id,
            "x-gateway-attempt": str(order.attempt),
            "x-gateway-inference-fairness-id": order.fairness_id,
            "x-fairness-weight": str(order.fairness_weight),
            "x-request-class": order.request_class,
            "x-cache-salt": order.cache_salt,
            "x-max-prompt-tokens": str(order.max_prompt_tokens),
            **authorization(key),
        }
        if request.is_sampled:
            headers["x-max-output-tokens"] = str(max(1, order.max_output_tokens))
        if order.promise.ttft_ms is not None:
            headers["x-slo-ttft-ms"] = f"{order.promise.ttft_ms:g}"
        if order.promise.tpot_ms is not None:
            headers["x-slo-tpot-ms"] = f"{order.promise.tpot_ms:g}"
        if order.wants_token_ids:
            headers["x-emit-token-ids"] = "1"
        body = render(request, changes, CLIENT_MAY_NOT_SET)
        return Call(base_url + PATHS[request.endpoint], headers, body)

    def resumed(self, base_url: str, call: Call, answer: Continuation, resumed_from: int) -> Call:
        return Call(f"{base_url}/internal/resume", call.headers, answer.body(call.body, resumed_from))

    async def abort(self, client: UpstreamClient, base_url: str, key: str | None, request_id: str) -> bool:
        headers = {"content-type": "application/json", **authorization(key)}
        body = orjson.dumps({"request_id": request_id})
        try:
            status, raw = await client.fetch(
                "POST", f"{base_url}/internal/abort", headers, body, SIDE_CALL_TIMEOUT_S
            )
            return status == 200 and orjson.loads(raw).get("aborted") is True
        except (UpstreamError, orjson.JSONDecodeError, AttributeError):
            return False

    async def journalled(
        self, client: UpstreamClient, base_url: str, key: str | None, request_id: str, attempt: int
    ) -> Figure | None:
        url = f"{base_url}/internal/usage?limit={JOURNAL_PAGE}&request_id={quote(request_id)}"
        status, raw = await client.fetch("GET", url, authorization(key), None, SIDE_CALL_TIMEOUT_S)
        figure = read_figure(raw, request_id, attempt) if status == 200 else None
        if figure is None or not figure.final:
            return None
        return Figure(figure.usage, figure.overrun_tokens)


def authorization(key: str | None) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"} if key is not None else {}


def with_usage(request: GenerationRequest) -> dict[str, Any]:
    options = request.fields.get("stream_options") or {}
    return {**options, "include_usage": True}
