"""Whether a request counts for or against availability. Pure.

A failure is ours: an error, a break in the middle of an answer, a lack of capacity. What the caller did wrong, what
their quota did not allow, and what they broke off themselves counts as neither good nor bad.
"""

from __future__ import annotations

from typing import Final

__all__ = ["OUR_REFUSALS", "is_good"]

GATEWAY_LOST = "gateway_lost"
"""The gateway died over it: whatever the engine's journal says, the caller saw it break."""

OUR_REFUSALS: Final = frozenset(
    {
        "server_is_overloaded",
        "service_unavailable_error",
        "timeout",
        "server_error",
        "internal_error",
        "draining",
    }
)
"""Reasons (the error's code, or else its type) of refusals that are failures. All others are the caller's own, or
their quota's."""

_CALLERS_OWN: Final = frozenset(
    {
        "context_length_exceeded",
        "invalid_request_error",
        "invalid_value",
        "insufficient_quota",
        "missing_required_parameter",
        "model_not_found",
        "rate_limit_exceeded",
        "requests",
        "tokens",
        "unsupported_parameter",
    }
)


def is_good(status: str, error_code: str | None) -> bool | None:
    """Of a request that was admitted, by how it ended. None: it does not count."""
    if error_code == GATEWAY_LOST:
        return False
    if status == "cancelled" or (status == "error" and error_code in _CALLERS_OWN):
        return None
    return status == "ok"
