"""Who calls and under which terms: the key, and the gateway's internal headers.

Keys are compared in constant time. The internal headers count only with the internal key; from anybody else they
are as good as absent. Knows no bodies.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from engine.messages import RequestClass
from engine.server.errors import invalid, unauthorized
from engine.server.exchange import Exchange

_ID = re.compile(r"[\x21-\x7e]{1,200}")
_DECIMAL = re.compile(r"\d{1,9}(\.\d{1,6})?")
_BEARER = "Bearer "


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    internal: bool = False
    """Holds the internal key."""
    request_id: str
    """Echoed as x-request-id."""
    gateway_request_id: str | None = None
    attempt: int | None = None
    fairness_id: str = ""
    fairness_weight: float = 1.0
    request_class: RequestClass = "interactive"
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    max_kv_fraction: float = 1.0
    cache_salt: bytes = b""
    max_prompt_tokens: int | None = None
    max_output_tokens: int | None = None
    emit_token_ids: bool = False
    """Streams carry the comment lines of `continuation`."""


class Keys:
    """The keys of this server. Without API keys the OpenAI routes are open; /internal never is."""

    def __init__(self, api_keys: Sequence[str], internal_key: str | None) -> None:
        self._api_keys = [key.encode() for key in api_keys if key]
        self._internal_key = internal_key.encode() if internal_key else None

    def check(self, exchange: Exchange, *, internal_only: bool) -> bool:
        """True for the internal key. Raises 401 for callers that may not use the route."""
        given = _bearer(exchange.header("authorization"))
        internal = self._is_internal(given)
        if internal:
            return True
        if internal_only:
            raise unauthorized("This route needs the internal key.", _code(given))
        if not self._api_keys:
            return False
        if given is None:
            raise unauthorized("Missing bearer authentication in the 'authorization' header.", None)
        matches = [hmac.compare_digest(given, key) for key in self._api_keys]  # all, so time tells nothing
        if not any(matches):
            raise unauthorized("Incorrect API key provided.", "invalid_api_key")
        return False

    def _is_internal(self, given: bytes | None) -> bool:
        return (
            given is not None
            and self._internal_key is not None
            and hmac.compare_digest(given, self._internal_key)
        )


def identify(exchange: Exchange, *, internal: bool, draw_id: Callable[[], str]) -> Caller:
    """The caller's terms. Raises 400 when the gateway sends an internal header that makes no sense."""
    given = exchange.header("x-request-id")
    request_id = given if given and _ID.fullmatch(given) else f"req-{draw_id()}"
    if not internal:
        return Caller(request_id=request_id)
    return Caller(
        internal=True,
        request_id=request_id,
        gateway_request_id=_text(exchange, "x-gateway-request-id"),
        attempt=_integer(exchange, "x-gateway-attempt", 0),
        fairness_id=_text(exchange, "x-gateway-inference-fairness-id") or "",
        fairness_weight=_decimal(exchange, "x-fairness-weight") or 1.0,
        request_class=_class(exchange, "x-request-class"),
        ttft_ms=_decimal(exchange, "x-slo-ttft-ms"),
        tpot_ms=_decimal(exchange, "x-slo-tpot-ms"),
        max_kv_fraction=_fraction(exchange, "x-max-kv-fraction"),
        cache_salt=_salt(exchange, "x-cache-salt"),
        max_prompt_tokens=_integer(exchange, "x-max-prompt-tokens", 0),
        max_output_tokens=_integer(exchange, "x-max-output-tokens", 1),
        emit_token_ids=_switch(exchange, "x-emit-token-ids"),
    )


def _bearer(header: str | None) -> bytes | None:
    if header is None or header[: len(_BEARER)].lower() != _BEARER.lower():
        return None
    return header[len(_BEARER) :].strip().encode("latin-1")


def _code(given: bytes | None) -> str | None:
    return None if given is None else "invalid_api_key"


def _text(exchange: Exchange, name: str) -> str | None:
    value = exchange.header(name)
    if value is not None and not _ID.fullmatch(value):
        raise invalid(f"Header {name} must hold 1 to 200 printable characters.", name)
    return value


def _integer(exchange: Exchange, name: str, low: int) -> int | None:
    value = exchange.header(name)
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and len(value) <= 10 and int(value) >= low):
        raise invalid(f"Header {name} must be an integer of at least {low}.", name)
    return int(value)


def _switch(exchange: Exchange, name: str) -> bool:
    value = exchange.header(name) or "0"
    if value not in ("0", "1"):
        raise invalid(f"Header {name} must be 0 or 1.", name)
    return value == "1"


def _decimal(exchange: Exchange, name: str) -> float | None:
    value = exchange.header(name)
    if value is None:
        return None
    if not _DECIMAL.fullmatch(value) or float(value) <= 0:
        raise invalid(f"Header {name} must be a positive decimal number.", name)
    return float(value)


def _fraction(exchange: Exchange, name: str) -> float:
    value = _decimal(exchange, name)
    if value is not None and value > 1:
        raise invalid(f"Header {name} must be at most 1.", name)
    return 1.0 if value is None else value


def _class(exchange: Exchange, name: str) -> RequestClass:
    value = exchange.header(name) or "interactive"
    if value not in ("interactive", "batch"):
        raise invalid(f"Header {name} must be 'interactive' or 'batch'.", name)
    return cast(RequestClass, value)


def _salt(exchange: Exchange, name: str) -> bytes:
    value = exchange.header(name) or ""
    if not re.fullmatch(r"([0-9a-fA-F]{2}){0,64}", value):
        raise invalid(f"Header {name} must be up to 64 bytes in hexadecimal.", name)
    return bytes.fromhex(value)
