"""The schedule of retries."""

from gateway.alerts.backoff import SCHEDULE_S, delay_s


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
