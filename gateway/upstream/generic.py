"""Any OpenAI-compatible server: usage forced, output bounded in the body, stopped by closing the connection.

Such an engine has no journal, no fairness and no abort: what it produced after a disconnect stays unknown.
"""

from __future__ import annotations

from typing import Any

from gateway.upstream.client import UpstreamClient
from gateway.upstream.dialect import PATHS, Call, Figure, Order
from gateway.upstream.native import CLIENT_MAY_NOT_SET, authorization, with_usage
from gateway.wire.continuation import Continuation
from gateway.wire.request import COMPLETIONS, GenerationRequest, render

__all__ = ["GenericDialect"]


class GenericDialect:
    has_journal = False
    echoes_model = False
    can_resume = False

    def prepare(self, base_url: str, key: str | None, request: GenerationRequest, order: Order) -> Call:
        changes: dict[str, Any] = {"model": order.upstream_model}
        if order.seed is not None:
            changes["seed"] = order.seed
        if request.stream:
            changes["stream_options"] = with_usage(request)
        if request.max_output_tokens != order.max_output_tokens:
            changes[_output_field(request)] = order.max_output_tokens
        headers = {
            "content-type": "application/json",
            "x-request-id": order.request_id,
            **authorization(key),
        }
        body = render(request, changes, CLIENT_MAY_NOT_SET)
        return Call(base_url + PATHS[request.endpoint], headers, body)

    def resumed(self, base_url: str, call: Call, answer: Continuation, resumed_from: int) -> Call:
        raise AssertionError("such an engine is never asked to")

    async def abort(self, client: UpstreamClient, base_url: str, key: str | None, request_id: str) -> bool:
        return False

    async def journalled(
        self, client: UpstreamClient, base_url: str, key: str | None, request_id: str, attempt: int
    ) -> Figure | None:
        return None


def _output_field(request: GenerationRequest) -> str:
    """The field that the client used, else the one every server of this kind knows."""
    modern = request.endpoint != COMPLETIONS and request.fields.get("max_completion_tokens") is not None
    return "max_completion_tokens" if modern else "max_tokens"
