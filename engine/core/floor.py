"""The minimum share of the lower class: a tenth of the step time while it has something waiting.

`scheduler` tells it after every step's schedule how much of the step is the lower class's; it says when that
class has had too little, so that it goes first for a while, and when it has had enough to give way to the upper
class. In between the order of the classes holds and nobody is moved, else a request could be admitted and thrown
out in turns. Knows no requests.
"""

from __future__ import annotations

SHARE = 0.1
_MOST_CREDIT_S = 0.25
"""Step time that may be owed before the order changes, and as much that may have been taken in advance."""


class Floor:
    def __init__(self) -> None:
        self.is_owed = False
        """The lower class goes first."""
        self._credit_s = 0.0
        self._part = 0.0
        self._was_waiting = False
        self._last_s: float | None = None

    @property
    def has_enough(self) -> bool:
        """The lower class had more than its share for a while: its requests may be made to wait for the upper class.
        Not as soon as it is even, or what was admitted to pay a debt would be thrown out by the next arrival."""
        return self._credit_s <= -_MOST_CREDIT_S

    def pass_time(self, now: float) -> None:
        """The time since the last call belongs to the step scheduled then."""
        elapsed = now - (now if self._last_s is None else self._last_s)
        assert elapsed >= 0, "the clock is monotonic"
        due = SHARE * elapsed if self._was_waiting else 0.0
        credit = self._credit_s + due - self._part * elapsed
        self._credit_s = min(_MOST_CREDIT_S, max(-_MOST_CREDIT_S, credit))
        self.is_owed = self._credit_s > 0 if self.is_owed else self._credit_s >= _MOST_CREDIT_S
        self._last_s = now

    def scheduled(self, part: float, *, is_waiting: bool) -> None:
        """The next step: the lower class's part of it, 0..1, and whether some of that class waits."""
        assert 0 <= part <= 1
        self._part, self._was_waiting = part, is_waiting
        if not is_waiting:
            self.is_owed = False
            self._credit_s = min(0.0, self._credit_s)
