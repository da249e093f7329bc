"""The retry budget of a pool: retries are at most a share of the traffic, so failures are not multiplied. Pure."""

from __future__ import annotations

from collections import deque

__all__ = ["RetryBudget"]

WINDOW_S = 10.0
SHARE_PERCENT = 10
FLOOR = 10
"""Retries per window that are allowed whatever the traffic."""


class RetryBudget:
    """Requests and retries of the last `WINDOW_S`, in one-second buckets, so it stays small under any load."""

    __slots__ = ("_buckets", "_requests", "_retries")

    def __init__(self) -> None:
        self._buckets: deque[list[int]] = deque()  # [second, requests, retries]
        self._requests = 0
        self._retries = 0

    @property
    def taken(self) -> int:
        """Retries of the current window."""
        return self._retries

    def note_request(self, now: float) -> None:
        self._bucket(now)[1] += 1
        self._requests += 1

    def take(self, now: float) -> bool:
        """One retry, if the budget still has it."""
        bucket = self._bucket(now)
        if self._retries >= max(FLOOR, self._requests * SHARE_PERCENT // 100):
            return False
        bucket[2] += 1
        self._retries += 1
        return True

    def _bucket(self, now: float) -> list[int]:
        second = int(now)
        while self._buckets and self._buckets[0][0] <= now - WINDOW_S:
            _, requests, retries = self._buckets.popleft()
            self._requests -= requests
            self._retries -= retries
        if not self._buckets or self._buckets[-1][0] < second:
            self._buckets.append([second, 0, 0])
        return self._buckets[-1]
