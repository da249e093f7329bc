"""The schedule of retries."""

from gateway.alerts.backoff import SCHEDULE_S, delay_s


def test_the_schedule() -> None:
    """At once, then after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h and 24 h."""
    hours = [2, 5, 10, 14, 20, 24]
    assert [*SCHEDULE_S] == [0, 5, 5 * 60, 30 * 60, *(hour * 3_600 for hour in hours)]


def test_ten_attempts_then_it_is_given_up() -> None:
    assert [delay_s(attempts, lambda bound: 0) for attempts in range(1, 11)] == [*SCHEDULE_S[1:], None]
    assert sum(SCHEDULE_S) > 3 * 86_400, "a weekend without a receiver is survived"


def test_who_asks_for_more_time_gets_it_up_to_a_day() -> None:
    assert [delay_s(1, lambda bound: 0, asked_s) for asked_s in (1.0, 60.0, 1e9)] == [
        5.0,
        60.0,
        SCHEDULE_S[-1],
    ]
    assert delay_s(10, lambda bound: 0, 60.0) is None


def test_jitter_only_delays_and_never_more_than_a_fifth() -> None:
    seen = {delay_s(1, lambda bound, n=n: n % bound) for n in range(100)}  # type: ignore[misc]  # n is bound early
    assert min(filter(None, seen)) == 5.0
    assert max(filter(None, seen)) == 6.0
    assert len(seen) == 21
