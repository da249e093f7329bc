"""The circuit breaker of one replica: stops asking a replica that keeps failing, tries it again later. Pure.

Counts only what is the replica's fault: lost or refused connections, 5xx, timeouts. A client's 4xx and an
honest "overloaded" or "draining" say that it is alive. Time is an argument.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Breaker", "BreakerRules"]


@dataclass(frozen=True, slots=True)
class BreakerRules:
    failures: int = 5
    """Consecutive failures that open it."""
    open_s: float = 1.0
    """How long it stays open the first time; doubles with each failed probe."""
    open_s_max: float = 30.0
    probe_timeout_s: float = 60.0
    """A probe that never reported back does not block the replica for ever."""


class Breaker:
    """closed → open → (one request as a probe) → closed, or open again for twice as long."""

    __slots__ = ("_failures", "_open_s", "_open_until", "_probe_until", "_rules")

    def __init__(self, rules: BreakerRules) -> None:
        self._rules = rules
        self._failures = 0
        self._open_s = rules.open_s
        self._open_until: float | None = None  # None: closed
        self._probe_until: float | None = None

    @property
    def is_open(self) -> bool:
        return self._open_until is not None

    def allows(self, now: float) -> bool:
        if self._open_until is None:
            return True
        if now < self._open_until:
            return False
        return self._probe_until is None or now >= self._probe_until

    def began(self, now: float) -> None:
        """A request goes to the replica (`allows` was asked a moment ago). If the breaker is not closed it is the
        probe, and holds the others back."""
        if self._open_until is not None:
            self._probe_until = now + self._rules.probe_timeout_s

    def succeeded(self) -> None:
        """The replica did its work (a client error counts: it answered)."""
        self._failures = 0
        self._open_s = self._rules.open_s
        self._open_until = self._probe_until = None

    def neutral(self) -> None:
        """Overloaded, draining, or the client left: says nothing about health; a probe may be tried again."""
        self._probe_until = None

    def failed(self, now: float) -> None:
        self._failures += 1
        if self._open_until is not None:
            if self._probe_until is None:
                return  # a straggler from before it opened
            self._open_s = min(self._open_s * 2, self._rules.open_s_max)
            self._probe_until, self._open_until = None, now + self._open_s
        elif self._failures >= self._rules.failures:
            self._open_until = now + self._open_s

    def restarted(self) -> None:
        """The replica has a new epoch: it may be tried at once, as a probe."""
        if self._open_until is not None:
            self._open_until, self._probe_until = float("-inf"), None
