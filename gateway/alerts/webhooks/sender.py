"""The HTTP client of webhooks: one request to an address that may be reached, one answer, within 15 seconds.

Each request has a connection of its own, so that each is checked; there are no redirects, no cookies, and no proxy of
the environment, which would do the resolving in our place. Bodies are bounded in both directions.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from gateway.alerts.webhooks.guard import Allows, Guard, SystemResolver, guarded_socket
from gateway.clock import Clock
from gateway.upstream.addresses import CheckedResolver

__all__ = ["TIMEOUT_S", "Answer", "SendFailed", "Sender"]

TIMEOUT_S = 15.0
ANSWER_TIMEOUT_S = 2.0
"""For the beginning of the answer's body, once its status is known: nobody's success hangs on it."""
ANSWER_BYTES_MAX = 512
BODY_BYTES_MAX = 256 * 1024
HEADER_BYTES_MAX = 8190
_HEADERS = {"content-type": "application/json", "user-agent": "Tollway-Webhooks/1"}


@dataclass(frozen=True, slots=True)
class Answer:
    """`text` is the beginning of the body. `retry_after_s` is 0 when nothing was asked."""

    status: int
    retry_after_s: float
    text: str


class SendFailed(Exception):
    """There was no answer. The text says why, and nothing of what is behind the guard."""


class Sender:
    """`start()` inside the running loop, `close()` at the end. `resolver` makes what names are looked up with; `tls`
    is for receivers whose certificates the system does not trust."""

    def __init__(
        self,
        guard: Guard,
        clock: Clock,
        *,
        timeout_s: float = TIMEOUT_S,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
        resolver: Callable[[], AbstractResolver] = SystemResolver,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._guard = guard
        self._clock = clock
        self._timeout_s = timeout_s
        self._answer_timeout_s = answer_timeout_s
        self._make_resolver = resolver
        self._tls = tls
        self._sessions: dict[str, aiohttp.ClientSession] = {}
        self._resolver: AbstractResolver | None = None

    async def start(self) -> None:
        self._resolver = self._make_resolver()
        self._sessions = {
            "https": self._session(self._resolver, self._guard.may_reach),
            "http": self._session(self._resolver, self._guard.is_listed),
        }

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()
        self._sessions = {}
        if self._resolver is not None:
            await self._resolver.close()
            self._resolver = None

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        assert self._sessions, "the sender is not started"
        if len(body) > BODY_BYTES_MAX:
            raise SendFailed(f"the event is larger than {BODY_BYTES_MAX} bytes")
        target = URL(url, encoded=True)
        try:
            async with asyncio.timeout(self._timeout_s):
                response = await self._sessions[target.scheme].post(
                    target, headers={**_HEADERS, **headers}, data=body, allow_redirects=False
                )
        except TimeoutError:
            raise SendFailed(f"no answer within {self._timeout_s:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise SendFailed(_why(error)) from None
        try:
            text = await _beginning(response, self._answer_timeout_s)
        finally:
            response.close()
        return Answer(response.status, self._retry_after_s(response.headers.get("retry-after")), text)

    def _session(self, resolver: AbstractResolver, allows: Allows) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            resolver=CheckedResolver(resolver.resolve, lambda address: not allows(address)),
            socket_factory=partial(guarded_socket, allows),
            use_dns_cache=False,
            force_close=True,
            limit=0,
            ssl=self._tls if self._tls is not None else True,
        )
        return aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            max_line_size=HEADER_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
            skip_auto_headers=("accept", "accept-encoding"),
        )

    def _retry_after_s(self, value: str | None) -> float:
        """Seconds, or a date. What cannot be read was not asked."""
        text = (value or "").strip()
        if text.isascii() and text.isdecimal():
            return float(text[:9])
        try:
            return max(0.0, (parsedate_to_datetime(text) - self._clock.now()).total_seconds())
        except (ValueError, TypeError):  # no date, or one without a zone
            return 0.0


async def _beginning(response: aiohttp.ClientResponse, timeout_s: float) -> str:
    """As much of the body as comes soon: it is for people to read, the status has decided already."""
    parts: list[bytes] = []
    try:
        async with asyncio.timeout(timeout_s):
            while (missing := ANSWER_BYTES_MAX - sum(map(len, parts))) > 0:
                part = await response.content.read(missing)
                if not part:
                    break
                parts.append(part)
    except (aiohttp.ClientError, OSError, TimeoutError):
        parts.append(b"")
    text = b"".join(parts).decode(errors="replace")
    return "".join(one if one.isprintable() else " " for one in text).strip()


def _why(error: Exception) -> str:
    """Nothing of what is behind the guard: the same words for a name that is refused and one that does not exist."""
    cause: Any = error
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"TLS: {getattr(error.certificate_error, 'verify_message', '') or 'the certificate is not trusted'}"
    if isinstance(error, aiohttp.ClientConnectorSSLError | ssl.SSLError):
        return "TLS: no connection could be agreed on"
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.InvalidURL):
        return "the address could not be reached"
    if isinstance(error, aiohttp.ServerDisconnectedError | ConnectionError):
        return "the connection ended before there was an answer"
    return f"no answer that could be read ({type(cause).__name__})"
