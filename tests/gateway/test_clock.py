"""The system clock is aware, in UTC, and its steady side never runs backwards."""

from datetime import timedelta

from gateway.clock import SystemClock


def test_now_is_aware_and_in_utc() -> None:
    assert SystemClock().now().utcoffset() == timedelta(0)


def test_monotonic_never_runs_backwards() -> None:
    clock = SystemClock()
    times = [clock.monotonic() for _ in range(1000)]
    assert times == sorted(times)
