"""A sink that keeps the answer under the request's idempotency key before it is sent."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.exchange import Sink
from gateway.idempotency import Claim, StoredAnswer

__all__ = ["REPLAYED_FROM", "KeepingSink", "replay_headers"]

REPLAYED_FROM = "x-tollway-replayed-from"


class KeepingSink:
    """Whole answers are kept, streams pass: what was streamed cannot be given again."""

    def __init__(self, sink: Sink, claim: Claim) -> None:
        self._sink = sink
        self._claim = claim

    async def whole(self, headers: Mapping[str, str], body: bytes) -> None:
        await self._claim.keep(body)
        await self._sink.whole(headers, body)

    async def stream(self, headers: Mapping[str, str], data: bytes, *, last: bool) -> None:
        await self._sink.stream(headers, data, last=last)

    def write(self, data: bytes) -> bool:
        return self._sink.write(data)


def replay_headers(stored: StoredAnswer) -> dict[str, str]:
    """The request that the answer was made, and charged, for is named."""
    return {"content-type": "application/json", REPLAYED_FROM: stored.request_id}
