"""One request at one replica, as routing counts it, and the replica's measured speed. Pure; time is an argument."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.routing.prefix import NO_MATCH, Match

__all__ = ["Speed", "Work"]

DECAY = 0.9
"""Weight of the past per first token: about the last ten count."""


@dataclass(slots=True, eq=False)
class Work:
    """From `began` to `ended`. `ahead_bytes`: of prompts that waited there when it came."""

    ahead_bytes: int
    prompt_bytes: int
    began_at: float
    is_waiting: bool
    """For its first token. Of a whole answer nobody sees when that comes: it never counts as waiting."""
    match: Match = NO_MATCH

    @property
    def uncached_bytes(self) -> int:
        return max(1, self.prompt_bytes - self.match.matched_bytes)


class Speed:
    """Bytes of prompt per second of waiting for a first token, and the mean prompt. Both sums decay, so a long prompt
    counts for more than a short one, and old ones for less."""

    __slots__ = ("_bytes", "_count", "_prompt", "_seconds")

    def __init__(self) -> None:
        self._bytes = 0.0
        self._seconds = 0.0
        self._prompt = 0.0
        self._count = 0.0

    @property
    def bytes_per_s(self) -> float | None:
        """None until the first first token."""
        return self._bytes / self._seconds if self._seconds > 0 else None

    @property
    def mean_bytes(self) -> float:
        return self._prompt / self._count if self._count else 0.0

    def note(self, work: Work, now: float) -> None:
        self._bytes = self._bytes * DECAY + work.ahead_bytes + work.uncached_bytes
        self._seconds = self._seconds * DECAY + max(now - work.began_at, 1e-6)
        self._prompt = self._prompt * DECAY + work.uncached_bytes
        self._count = self._count * DECAY + 1
