"""What an engine's refusal means: whose fault, what the caller may read of it, whether another try may help.

The allow-list of what an engine may tell a caller is here; everything else becomes a sentence of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gateway.errors import ClientError, EngineFailed, GatewayError, Overloaded
from gateway.wire.answer import EngineError

__all__ = ["Refusal", "Verdict", "judge"]

Verdict = Literal["client", "busy", "closed", "stale", "failed", "outlasted", "mismatch"]
RETRY_AFTER_S_MAX = 120.0
RETRY_AFTER_S_DEFAULT = 1.0
# An engine's 401, 403 or 404 is our configuration, never the caller's fault.
CLIENT_STATUSES = frozenset({400, 413, 422})
CLOSED_CODES = frozenset({"draining", "engine_unavailable"})
PASSED_CODES = frozenset(
    {
        "context_length_exceeded",
        "invalid_value",
        "invalid_type",
        "missing_required_parameter",
        "unsupported_parameter",
        "unsupported_value",
    }
)
MESSAGE_CHARS_MAX = 2000


@dataclass(frozen=True, slots=True)
class Refusal:
    """`client` is answered as it is; `busy` and `closed` (it drains, or loads) may pass elsewhere; `stale` was the connection, not the
    replica; `failed` is the replica's fault; `outlasted` is nobody's: the answer was longer than its time; `mismatch`: it
    has other weights than the replica that began the answer."""

    verdict: Verdict
    error: GatewayError


def judge(
    status: int, headers: Mapping[str, str], said: EngineError, upstream_model: str, served_model: str
) -> Refusal:
    if status in CLIENT_STATUSES:
        return Refusal("client", _client_error(status, said, upstream_model, served_model))
    if status == 503 and said.code in CLOSED_CODES:
        return Refusal("closed", Overloaded(_retry_after_s(headers)))
    if status == 429 or (status == 503 and said.code == "server_is_overloaded"):
        return Refusal("busy", Overloaded(_retry_after_s(headers)))
    if status == 409 and said.code == "model_mismatch":
        return Refusal("mismatch", EngineFailed())
    return Refusal("failed", EngineFailed())


def _client_error(status: int, said: EngineError, upstream_model: str, served_model: str) -> ClientError:
    message = (said.message or "The request was refused by the model.")[:MESSAGE_CHARS_MAX]
    return ClientError(
        message.replace(upstream_model, served_model),
        status=400 if status == 422 else status,
        code=said.code if said.code in PASSED_CODES else _code_of(message, said.type),
        param=said.param,
    )


def _code_of(message: str, kind: str | None) -> str | None:
    """vLLM says it in words, llama.cpp by the error's type."""
    is_too_long = "maximum context length" in message or kind == "exceed_context_size_error"
    return "context_length_exceeded" if is_too_long else None


def _retry_after_s(headers: Mapping[str, str]) -> float:
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return RETRY_AFTER_S_DEFAULT
    return min(seconds, RETRY_AFTER_S_MAX) if seconds > 0 else RETRY_AFTER_S_DEFAULT
