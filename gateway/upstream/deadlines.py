"""The deadlines of one upstream exchange: first token, between tokens, total — with one timer per stream.

The timer is re-armed when it fires, not at every chunk, so a token costs two attribute writes. It also says when a
caller has heard nothing for too long before the first token. What a missed deadline means (retry, 504, error event) is
the pipeline's to say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Literal

from gateway.settings import UpstreamSettings

__all__ = ["Deadlines", "Expired", "Timeouts"]

KEEP_ALIVE_S = 15.0
"""Below the 30 s and 60 s after which load balancers drop a connection that is silent."""

Expired = Literal["first_token", "between_tokens", "total", "write"]


@dataclass(frozen=True, slots=True)
class Timeouts:
    connect_s: float
    first_token_s: float
    between_tokens_s: float
    total_s: float
    keep_alive_s: float = KEEP_ALIVE_S
    """Not a deadline: how long a stream may be silent before its first token without a sign of life."""

    @classmethod
    def of(cls, settings: UpstreamSettings) -> Timeouts:
        return cls(
            settings.connect_timeout_s,
            settings.first_token_timeout_s,
            settings.between_tokens_timeout_s,
            settings.total_timeout_s,
        )


class Deadlines:
    """Start it with `async with deadlines:`, again for each attempt; a missed deadline is a TimeoutError there.

    `total` counts from the construction, over all attempts; the others from the last progress.
    """

    def __init__(
        self, timeouts: Timeouts, streaming: bool, on_silence: Callable[[], None] | None = None
    ) -> None:
        """`on_silence` is called each `keep_alive_s` until there is progress."""
        self.timeouts = timeouts
        self.expired: Expired | None = None
        self.writing = False
        """True while a chunk waits for a slow reader: silence is then the reader's, not the engine's."""
        self._on_silence = on_silence
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        began = self._loop.time()
        self._total_at = began + timeouts.total_s
        self._quiet_at = began + timeouts.keep_alive_s
        # A whole answer has no first token to wait for: only the total counts.
        self._first_s = timeouts.first_token_s if streaming else timeouts.total_s
        self._started = False
        self._last = 0.0
        self._scope: asyncio.Timeout | None = None
        self._timer: asyncio.TimerHandle | None = None

    def progress(self) -> None:
        """Data arrived: from here on the between-tokens deadline counts."""
        self._last = self._now()
        if not self._started:
            # The armed timer stands at the first-token deadline, which may be later than the next one.
            self._started = True
            if self._timer is not None:
                self._timer.cancel()
                self._arm()

    async def __aenter__(self) -> None:
        self._started, self._last = False, self._loop.time()
        self._scope = asyncio.timeout(None)
        await self._scope.__aenter__()
        self._arm()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        scope, self._scope = self._scope, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        assert scope is not None, "entered first"
        await scope.__aexit__(kind, error, trace)

    def _due(self) -> tuple[float, Expired]:
        silence_s = self.timeouts.between_tokens_s if self._started else self._first_s
        kind: Expired = "write" if self.writing else "between_tokens" if self._started else "first_token"
        return min((self._last + silence_s, kind), (self._total_at, "write" if self.writing else "total"))

    def _arm(self) -> None:
        at = self._due()[0]
        if self._is_quiet():
            at = min(at, self._quiet_at)
        self._timer = self._loop.call_at(at, self._fire)

    def _fire(self) -> None:
        now = self._loop.time()
        at, kind = self._due()
        if now < at:
            if self._is_quiet() and now >= self._quiet_at:
                assert self._on_silence is not None
                self._quiet_at = now + self.timeouts.keep_alive_s
                self._on_silence()
            self._arm()
        elif self._scope is not None:
            self.expired = kind
            self._scope.reschedule(now)

    def _is_quiet(self) -> bool:
        return self._on_silence is not None and not self._started and not self.writing
