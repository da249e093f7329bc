"""The HTTP client of the data path: keep-alive connections per engine, and a request over one of them.

Gives raw status, headers and body bytes. A kept connection that proves dead before anything was received is
told from other failures, so that the caller can ask once more on a fresh one. It knows no timeouts but the
connect timeout: deadlines of a stream are upstream/deadlines.py's. Redirects are answers like others: an engine must
not send a prompt, or the gateway, elsewhere.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from gateway.settings import UpstreamSettings
from gateway.upstream.addresses import CheckedResolver, Lookup
from gateway.upstream.connection import (
    Connection,
    ConnectionLost,
    StaleConnection,
    UpstreamError,
    UpstreamReply,
)

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
PLACES_REMEMBERED = 1024
PORTS = {"http": 80, "https": 443}


class ConnectFailed(UpstreamError):
    """No connection: the engine has seen nothing of the request."""


@dataclass(frozen=True, slots=True)
class _Origin:
    host: str
    port: int
    is_secure: bool
    tls: ssl.SSLContext | None = None
    """Whom to trust, in place of the system's authorities."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A URL, read. `target` and `host` as they stand in a request."""

    origin: _Origin
    target: str
    host: str


class UpstreamClient:
    """One per process; `start()` inside the running loop, `close()` at the end."""

    def __init__(self, settings: UpstreamSettings, lookup: Lookup | None = None) -> None:
        """`lookup` of names in place of the system's."""
        self._lookup = lookup
        self._resolver: CheckedResolver | None = None
        self._connect_s = settings.connect_timeout_s
        self._turns = asyncio.Semaphore(settings.max_connections)
        """For connections that carry a request."""
        self._kept: dict[_Origin, list[Connection]] = {}
        """Free, the one used last at the end."""
        self._open: dict[Connection, _Origin] = {}
        self._busy: set[Connection] = set()
        self._place = lru_cache(PLACES_REMEMBERED)(_place_of)
        self._tls: ssl.SSLContext | None = None
        self._sweeper: asyncio.Task[None] | None = None

    @property
    def num_open(self) -> int:
        """Connections, free ones too."""
        return len(self._open)

    async def start(self) -> None:
        self._resolver = CheckedResolver(self._lookup)
        self._sweeper = asyncio.create_task(self._sweep_for_ever(), name="upstream-sweep")

    async def close(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)
        for connection in list(self._open):
            connection.drop()
        if self._resolver is not None:
            await self._resolver.close()

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
        return await self._ask("POST", url, headers, body, tls, connect_s or self._connect_s, fresh=fresh)

    async def fetch(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout_s: float,
        tls: ssl.SSLContext | None = None,
    ) -> tuple[int, bytes]:
        """A small side call (status, abort, journal): status and whole body within `timeout_s`. It may be made twice."""
        try:
            async with asyncio.timeout(timeout_s):
                try:
                    reply = await self._ask(method, url, headers, body, tls, timeout_s)
                except StaleConnection:
                    reply = await self._ask(method, url, headers, body, tls, timeout_s, fresh=True)
                try:
                    return reply.status, await reply.read_whole()
                finally:
                    reply.close()
        except (ConnectFailed, TimeoutError) as error:
            raise ConnectionLost(str(error)) from error

    async def _ask(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        tls: ssl.SSLContext | None,
        connect_s: float,
        *,
        fresh: bool = False,
    ) -> UpstreamReply:
        place = self._place(url)
        origin = place.origin if tls is None else replace(place.origin, tls=tls)
        head = _head(method, place, headers, body)
        await self._turns.acquire()
        try:
            kept = None if fresh else self._take_kept(origin)
            connection = kept or await self._connect(origin, connect_s)
        except BaseException:
            self._turns.release()
            raise
        self._busy.add(connection)
        return await connection.ask(head, body or b"")

    def _take_kept(self, origin: _Origin) -> Connection | None:
        """The one used last: the others may become old and go."""
        kept, oldest = self._kept.get(origin), _now() - IDLE_CONNECTION_S
        while kept:
            connection = kept.pop()
            if connection.is_open and connection.free_since > oldest:
                return connection
            connection.drop()
        return None

    async def _connect(self, origin: _Origin, connect_s: float) -> Connection:
        try:
            async with asyncio.timeout(connect_s):
                connection = await self._reach(origin)
        except (OSError, TimeoutError) as error:
            raise ConnectFailed(f"{origin.host}:{origin.port}: {error or 'timeout'}") from error
        self._open[connection] = origin
        return connection

    async def _reach(self, origin: _Origin) -> Connection:
        """At the first of its addresses where somebody listens. A certificate is verified for the name."""
        loop, tls, failure = asyncio.get_running_loop(), None, OSError("no address")
        if origin.is_secure:
            tls = origin.tls or self._tls_context()
        for address in await self._addresses(origin):
            try:
                _, connection = await loop.create_connection(
                    lambda: Connection(self._freed, self._lost),
                    address,
                    origin.port,
                    ssl=tls,
                    server_hostname=origin.host if tls is not None else None,
                )
                return connection
            except OSError as error:
                failure = error
        raise failure

    async def _addresses(self, origin: _Origin) -> list[str]:
        assert self._resolver is not None, "the client is not started"
        try:
            return [str(ip_address(origin.host))]
        except ValueError:
            found = await self._resolver.resolve(origin.host, origin.port, socket.AF_UNSPEC)
            return [one["host"] for one in found]

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls

    def _freed(self, connection: Connection) -> None:
        self._ends_turn(connection)
        connection.free_since = _now()
        self._kept.setdefault(self._open[connection], []).append(connection)

    def _lost(self, connection: Connection) -> None:
        self._ends_turn(connection)
        origin = self._open.pop(connection, None)
        kept = self._kept.get(origin) if origin is not None else None
        if kept and connection in kept:
            kept.remove(connection)

    def _ends_turn(self, connection: Connection) -> None:
        if connection in self._busy:
            self._busy.remove(connection)
            self._turns.release()

    async def _sweep_for_ever(self) -> None:
        """Servers that close no idle connection would leave them here as long as others are used."""
        while True:
            await asyncio.sleep(IDLE_CONNECTION_S)
            oldest = _now() - IDLE_CONNECTION_S
            for origin, kept in list(self._kept.items()):
                for connection in kept:
                    if connection.free_since <= oldest:
                        connection.drop()
                self._kept[origin] = [one for one in kept if one.free_since > oldest]
                if not self._kept[origin]:
                    del self._kept[origin]


def _now() -> float:
    return asyncio.get_running_loop().time()


def _place_of(url: str) -> _Place:
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS[parts.scheme]
    except (ValueError, KeyError):
        raise ConnectFailed(f"{url!r} is no address of an engine") from None
    if not parts.hostname or not url.isascii() or " " in url:
        raise ConnectFailed(f"{url!r} is no address of an engine")
    target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    origin = _Origin(parts.hostname, port, parts.scheme == "https")
    return _Place(origin, target, parts.netloc.rpartition("@")[2])


def _head(method: str, place: _Place, headers: Mapping[str, str], body: bytes | None) -> bytes:
    length = f"content-length: {len(body)}\r\n" if body is not None else ""
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    head = f"{method} {place.target} HTTP/1.1\r\nhost: {place.host}\r\n{length}{lines}\r\n"
    if head.count("\n") != len(headers) + (3 if body is None else 4):
        raise ValueError("a line break in a header")
    return head.encode()
