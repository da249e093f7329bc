"""/internal/resume: the rest of a stream that another replica began.

Reads what `continuation` put beside that stream, and hands the first request on to its endpoint with it. The body and
the rules of the bill are defined in docs/engine-internal.md. Knows no tokens.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Annotated, Any

import msgspec

from engine.server.caller import Caller
from engine.server.continuation import Resumed, Start, TokenId
from engine.server.errors import invalid, model_mismatch
from engine.server.exchange import Exchange
from engine.server.openai_routes import answer_chat, answer_completion
from engine.server.services import Services

_Answer = Callable[[Services, Exchange, Caller, bytes, Resumed], Awaitable[None]]
_ENDPOINTS: Mapping[str, _Answer] = {
    "/v1/chat/completions": answer_chat,
    "/v1/completions": answer_completion,
}


class ResumeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    start: Start
    outputs: list[list[TokenId]]
    ended: list[int] = []
    resumed_from: Annotated[int, msgspec.Meta(ge=0, le=32_767)] | None = None
    request: msgspec.Raw


class _Asked(msgspec.Struct):
    """All that is looked at here of the first request: its endpoint reads it, within the bounds of a body."""

    stream: Any = None


async def resume(services: Services, exchange: Exchange, caller: Caller) -> None:
    raw = await exchange.body()
    body = await services.beside_loop(len(raw), partial(_read, raw))
    if body.start.model_hash != services.model_hash:
        raise model_mismatch()
    answer = _ENDPOINTS.get(body.start.path)
    if answer is None:
        raise invalid("Invalid value for 'start.path': answers of this endpoint do not go on.", "start.path")
    resumed = Resumed(body.start, body.outputs, frozenset(body.ended), body.resumed_from)
    await answer(services, exchange, caller, bytes(body.request), resumed)


def _read(raw: bytes) -> ResumeBody:
    try:
        body = msgspec.json.decode(raw, type=ResumeBody)
    except (msgspec.DecodeError, RecursionError) as error:  # the first names the place: `$.start.seeds[0]`
        raise invalid(f"The body is no request to go on: {error}.", None) from error
    if body.start.cached_tokens > sum(map(len, body.start.prompts)):
        raise invalid(
            "Invalid value for 'start.cached_tokens': more than the prompt has.", "start.cached_tokens"
        )
    if not _is_stream(body.request):
        raise invalid("Only streams go on elsewhere: 'request.stream' must be true.", "request.stream")
    return body


def _is_stream(request: msgspec.Raw) -> bool:
    try:
        return msgspec.json.decode(request, type=_Asked).stream is True
    except msgspec.ValidationError:  # no object
        return False
