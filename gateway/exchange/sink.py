"""Where an answer goes, as the request path sees it. The HTTP edge implements it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

__all__ = ["ClientGone", "Sink"]


class ClientGone(Exception):
    """The caller stopped reading for longer than the write timeout."""


class Sink(Protocol):
    """The edge adds the headers that every answer has. After the first call nothing can be taken back."""

    async def whole(self, headers: Mapping[str, str], body: bytes) -> None: ...

    async def stream(self, headers: Mapping[str, str], data: bytes, *, last: bool) -> None:
        """The next bytes of an event stream; the headers count with the first."""
        ...

    def write(self, data: bytes) -> bool:
        """More of a stream that has begun, without waiting. False, and nothing is sent, if that cannot be: then it is
        `stream`'s."""
        ...
