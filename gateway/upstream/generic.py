"""Any OpenAI-compatible server: usage forced, output bounded in the body, stopped by closing the connection.

Such an engine has no journal, no fairness, no abort and no bound of the prompt: what it produced after a disconnect
stays unknown. Fields that some server knows as another name of a bound never reach one.
"""

from __future__ import annotations

from typing import Any

from gateway.upstream.client import UpstreamClient
from gateway.upstream.dialect import PATHS, Call, Figure, Order
from gateway.upstream.inside import left_out, refuse_inside
from gateway.upstream.native import authorization, with_usage
from gateway.wire.continuation import Continuation
from gateway.wire.request import CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES, GenerationRequest, render

__all__ = ["GenericDialect"]

OUTPUT_BOUNDS = ("max_tokens", "max_completion_tokens", "max_new_tokens", "n_predict", "num_predict")
"""Names of one thing; which of them wins is another for every server."""
DROPPED = frozenset({*OUTPUT_BOUNDS, "min_tokens", "min_new_tokens", "best_of", "n_cmpl"})
# Some servers take messages for a prompt or an input too, which nobody has counted or checked there.
DROPPED_WITHOUT_MESSAGES = DROPPED | {"messages"}


class GenericDialect:
    has_journal = False
    echoes_model = False
    can_resume = False

    def __init__(self, *, takes_salt: bool = False) -> None:
        """`takes_salt`: the server keeps prefixes apart by `cache_salt` in the body, as vLLM does."""
        self._takes_salt = takes_salt

    def check(self, request: GenerationRequest) -> None:
        refuse_inside(request)

    def prepare(self, base_url: str, key: str | None, request: GenerationRequest, order: Order) -> Call:
        changes: dict[str, Any] = {"model": order.upstream_model}
        if order.seed is not None:
            changes["seed"] = order.seed
        if request.stream:
            changes["stream_options"] = with_usage(request)
        if request.endpoint != EMBEDDINGS:
            changes |= _output_bounds(request, order.max_output_tokens)
        if self._takes_salt:
            changes["cache_salt"] = order.cache_salt
        headers = {
            "content-type": "application/json",
            "x-request-id": order.request_id,
            **authorization(key),
        }
        has_messages = request.endpoint in (CHAT, RESPONSES)
        inside = left_out(request)
        body = render(request, changes, (DROPPED if has_messages else DROPPED_WITHOUT_MESSAGES) | inside)
        named = (name for name in inside if request.fields[name] is not None)
        return Call(base_url + PATHS[request.endpoint], headers, body, tuple(sorted(named)))

    def resumed(self, base_url: str, call: Call, answer: Continuation, resumed_from: int) -> Call:
        raise AssertionError("such an engine is never asked to")

    async def abort(self, client: UpstreamClient, base_url: str, key: str | None, request_id: str) -> bool:
        return False

    async def journalled(
        self, client: UpstreamClient, base_url: str, key: str | None, request_id: str, attempt: int
    ) -> Figure | None:
        return None


def _output_bounds(request: GenerationRequest, maximum: int) -> dict[str, int]:
    """Exactly one upper bound. A lower one must not argue with it, and what is no number is none."""
    bounds = {_output_field(request): maximum}
    minimum = request.fields.get("min_tokens")
    if isinstance(minimum, int) and not isinstance(minimum, bool):
        bounds["min_tokens"] = min(minimum, maximum)
    return bounds


def _output_field(request: GenerationRequest) -> str:
    """The field that the client used, else the one every server of this kind knows."""
    modern = request.endpoint != COMPLETIONS and request.fields.get("max_completion_tokens") is not None
    return "max_completion_tokens" if modern else "max_tokens"
