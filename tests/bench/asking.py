"""A cheap client for benchmarks: one connection per worker, fixed bytes out, times of what comes in.

It reads just enough of HTTP to know where an answer ends, so that on a small machine the client takes little from
what is measured.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from urllib.parse import urlsplit

__all__ = ["Asked", "Times", "ask_many", "request_bytes"]

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_LAST_CHUNK = b"0\r\n\r\n"
ANSWER_TIMEOUT_S = 60.0


@dataclass(slots=True)
class Asked:
    """One answer. Seconds; `gaps` between the pieces of a stream."""

    first_s: float
    total_s: float
    gaps: list[float]


@dataclass(slots=True)
class Times:
    answers: list[Asked] = field(default_factory=list)
    failed: int = 0
    wall_s: float = 0.0


def request_bytes(url: str, key: str, fields: dict[str, object]) -> bytes:
    body = json.dumps(fields).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: {urlsplit(url).netloc}\r\nauthorization: Bearer {key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[bool] | None = None
        self._raw = bytearray()
        self._ends_at: int | None = None
        self.arrivals: list[float] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def ask(self, request: bytes) -> asyncio.Future[bool]:
        """True when a whole answer with status 200 has come."""
        assert self._transport is not None
        self._raw.clear()
        self.arrivals = []
        self._ends_at = None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        self._raw += data
        head = self._raw.find(b"\r\n\r\n") if not self.arrivals else 0
        if head < 0 or (not self.arrivals and len(self._raw) == head + 4):
            return  # a head alone is no answer yet
        if not self.arrivals:
            length = _LENGTH.search(self._raw, 0, head)
            self._ends_at = head + 4 + int(length[1]) if length else None
        self.arrivals.append(time.perf_counter())
        is_whole = len(self._raw) >= self._ends_at if self._ends_at else self._raw.endswith(_LAST_CHUNK)
        if is_whole and self._answer is not None and not self._answer.done():
            self._answer.set_result(self._raw.startswith(b"HTTP/1.1 200"))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("closed before the end"))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def ask_many(url: str, request: bytes, requests: int, concurrency: int, limit_s: float) -> Times:
    """A closed loop of `requests` in all, or as many as begin within `limit_s`. Who has no answer long after that never
    had one: it has failed."""
    times = Times()
    began = time.perf_counter()

    def turns() -> Iterator[int]:
        for turn in range(requests):
            if time.perf_counter() - began > limit_s:
                return
            yield turn

    left = turns()
    workers = [asyncio.create_task(_worker(url, request, left, times)) for _ in range(concurrency)]
    _, waiting = await asyncio.wait(workers, timeout=limit_s + ANSWER_TIMEOUT_S)
    times.failed += len(waiting)
    for worker in waiting:
        worker.cancel()
    ended = await asyncio.gather(*workers, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception):
            raise error
    times.wall_s = time.perf_counter() - began
    return times


async def _worker(url: str, request: bytes, left: Iterator[int], times: Times) -> None:
    where = urlsplit(url)
    host, port = where.hostname or "", where.port or 80
    loop = asyncio.get_running_loop()
    connection: _Connection | None = None
    try:
        for _ in left:
            if connection is None:
                _, connection = await loop.create_connection(_Connection, host, port)
            asked_at = time.perf_counter()
            try:
                is_good = await connection.ask(request)
            except OSError:
                is_good = False
            if not is_good:
                times.failed += 1
                connection.close()
                connection = None
                continue
            arrivals = connection.arrivals
            gaps = [later - earlier for earlier, later in pairwise(arrivals)]
            times.answers.append(Asked(arrivals[0] - asked_at, arrivals[-1] - asked_at, gaps))
    finally:
        if connection is not None:
            connection.close()
