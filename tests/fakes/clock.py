"""A clock that tests move by hand; it knows nothing of real time."""

from datetime import UTC, datetime, timedelta


class ManualClock:
    """Starts at a fixed instant and moves only by `advance`."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start
        self._monotonic_s = 1000.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic_s

    def advance(self, seconds: float) -> None:
        assert seconds >= 0
        self._now += timedelta(seconds=seconds)
        self._monotonic_s += seconds

    def step_wall(self, seconds: float) -> None:
        """Moves the wall clock alone, as an NTP correction would."""
        self._now += timedelta(seconds=seconds)
