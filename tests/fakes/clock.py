"""Clocks that tests move by hand."""

from datetime import UTC, datetime, timedelta

from gateway.clock import SystemClock


class ManualClock:
    """Starts at a fixed instant and moves only by `advance`; it knows nothing of real time."""

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


class WallClock:
    """The machine's clock until `set` stops its wall part; the steady part always runs."""

    def __init__(self) -> None:
        self._system = SystemClock()
        self._at: datetime | None = None

    def set(self, at: datetime) -> None:
        self._at = at

    def now(self) -> datetime:
        return self._at or self._system.now()

    def monotonic(self) -> float:
        return self._system.monotonic()
