"""The HTTP client of the data path: aiohttp with one keep-alive pool per replica.

Gives raw status, headers and body bytes. A kept connection that proves dead before anything was received is
told from other failures, so that the caller can ask once more on a fresh one. It knows no timeouts but the
connect timeout: deadlines of a stream are upstream/deadlines.py's.
"""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace

import aiohttp

from gateway.settings import UpstreamSettings
from gateway.upstream.addresses import CheckedResolver, Lookup

__all__ = [
    "ConnectFailed",
    "ConnectionLost",
    "StaleConnection",
    "UpstreamClient",
    "UpstreamError",
    "UpstreamReply",
]

# Shorter than the idle timeout of the servers behind (uvicorn closes after 5 s), so that reuse rarely races.
IDLE_CONNECTION_S = 4.0
READ_BUFFER_BYTES = 64 * 1024
WHOLE_BODY_BYTES_MAX = 64 * 1024 * 1024
DRAIN_S = 1.0


class UpstreamError(Exception):
    """The engine could not be reached, or the connection to it failed."""


class ConnectFailed(UpstreamError):
    """No connection: the engine has seen nothing of the request."""


class ConnectionLost(UpstreamError):
    """The connection ended where it should not have; the engine may have worked on the request."""


@dataclass(slots=True)
class _Trace:
    """What aiohttp reports about the connection of one request."""

    reused: bool = False


class StaleConnection(ConnectionLost):
    """A kept connection ended before one byte was received: most likely the server had closed it for idleness."""


class UpstreamReply:
    """An answer whose body is still to be read. Exactly one of `drain()` and `close()` ends it."""

    __slots__ = ("_response", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    @property
    def is_stream(self) -> bool:
        return self.headers.get("content-type", "").startswith("text/event-stream")

    @property
    def is_at_end(self) -> bool:
        return self._response.content.at_eof()

    async def read_some(self) -> bytes:
        """The next bytes as the network gave them; empty at the end."""
        try:
            return await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            self.close()
            raise ConnectionLost(str(error)) from error

    async def read_whole(self) -> bytes:
        parts, size = [], 0
        while part := await self.read_some():
            size += len(part)
            if size > WHOLE_BODY_BYTES_MAX:
                self.close()
                raise ConnectionLost(f"more than {WHOLE_BODY_BYTES_MAX} bytes in one answer")
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def drain(self) -> None:
        """Reads to the end of a stream that has said `[DONE]`, so that the connection can be used again."""
        try:
            async with asyncio.timeout(DRAIN_S):
                while await self._response.content.readany():
                    pass
        except (aiohttp.ClientError, OSError, TimeoutError):
            self.close()

    def close(self) -> None:
        """Drops the connection; to an engine that is the sign that nobody listens any more."""
        self._response.close()


class UpstreamClient:
    """One per process; `start()` inside the running loop, `close()` at the end."""

    def __init__(self, settings: UpstreamSettings, lookup: Lookup | None = None) -> None:
        """`lookup` of names in place of the system's."""
        self._settings = settings
        self._lookup = lookup
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=settings.connect_timeout_s)
        self._pooled: aiohttp.ClientSession | None = None
        self._fresh: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        trace = aiohttp.TraceConfig()
        trace.on_connection_reuseconn.append(_note_reuse)
        limit = self._settings.max_connections
        pool = aiohttp.TCPConnector(
            limit=limit,
            keepalive_timeout=IDLE_CONNECTION_S,
            enable_cleanup_closed=False,
            resolver=CheckedResolver(self._lookup),
        )
        self._pooled = self._session(pool, [trace])
        fresh = aiohttp.TCPConnector(limit=limit, force_close=True, resolver=CheckedResolver(self._lookup))
        self._fresh = self._session(fresh, [])

    async def close(self) -> None:
        for session in (self._pooled, self._fresh):
            if session is not None:
                await session.close()
        self._pooled = self._fresh = None

    async def post(
        self,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        fresh: bool = False,
        connect_s: float | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> UpstreamReply:
        """Returns when the answer's headers are there. `fresh`: not on a kept connection. `connect_s`: other than the
        setting's time to connect. `tls`: whom to trust, in place of the system's authorities."""
        session = self._fresh if fresh else self._pooled
        assert session is not None, "the client is not started"
        trace, timeout = _Trace(), self._timeout
        if connect_s is not None and connect_s != timeout.sock_connect:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_s)
        try:
            return UpstreamReply(
                await session.post(
                    url,
                    headers=headers,
                    data=body,
                    timeout=timeout,
                    allow_redirects=False,  # an engine must not send a prompt, or the gateway, elsewhere
                    trace_request_ctx=trace,
                    ssl=tls or True,
                )
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise ConnectFailed(str(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            kind = StaleConnection if trace.reused and _is_disconnect(error) else ConnectionLost
            raise kind(str(error)) from error

    async def fetch(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout_s: float,
        tls: ssl.SSLContext | None = None,
    ) -> tuple[int, bytes]:
        """A small side call (status, abort, journal): status and whole body within `timeout_s`."""
        assert self._pooled is not None, "the client is not started"
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._pooled.request(
                    method, url, headers=headers, data=body, allow_redirects=False, ssl=tls or True
                ) as response,
            ):
                return response.status, await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ConnectionLost(str(error)) from error

    def _session(
        self, connector: aiohttp.TCPConnector, traces: list[aiohttp.TraceConfig]
    ) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=connector,
            timeout=self._timeout,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            read_bufsize=READ_BUFFER_BYTES,
            skip_auto_headers=("user-agent", "accept", "accept-encoding"),
            trace_configs=traces,
        )


async def _note_reuse(
    session: aiohttp.ClientSession, context: SimpleNamespace, params: aiohttp.TraceConnectionReuseconnParams
) -> None:
    if isinstance(context.trace_request_ctx, _Trace):
        context.trace_request_ctx.reused = True


def _is_disconnect(error: Exception) -> bool:
    if isinstance(error, aiohttp.ServerDisconnectedError | ConnectionResetError | BrokenPipeError):
        return True
    return isinstance(error, OSError) and error.errno in (errno.ECONNRESET, errno.EPIPE)
