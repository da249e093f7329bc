"""Time, as a parameter.

The only module of the gateway that reads the machine's clock. Everything that needs a time takes a
`Clock`, so that tests drive time by hand. It knows nothing of time zones other than UTC.
"""

import time
from datetime import UTC, datetime
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """A wall clock for facts that are stored, and a steady one for durations."""

    def now(self) -> datetime:
        """The current time, always aware and in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards; only differences mean anything."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()
