"""Period boundaries: half-open, in the budget's zone, over clock changes, month ends and leap days."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.ledger.periods import Period, period_bounds, period_key, zone_of

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",  # changed its clocks at midnight
    "Asia/Beirut",  # still does
    "Asia/Kathmandu",
    "Australia/Lord_Howe",  # changes by half an hour
    "Pacific/Apia",  # skipped a whole day in 2011
    "Pacific/Kiritimati",
)
instants = st.datetimes(datetime(2008, 1, 1), datetime(2036, 1, 1)).map(lambda at: at.replace(tzinfo=UTC))


@given(st.sampled_from(["daily", "weekly", "monthly"]), st.sampled_from(ZONES), instants)
def test_bounds_hold_the_instant_and_meet_their_neighbours(period: Period, name: str, at: datetime) -> None:
    zone = zone_of(name)
    start, end = period_bounds(period, zone, at)
    key = period_key(period, zone, at)
    tick = timedelta(microseconds=1)
    assert start <= at < end
    assert period_key(period, zone, start) == period_key(period, zone, end - tick) == key
    assert period_key(period, zone, end) != key
    assert period_key(period, zone, start - tick) != key
    assert period_key(period, zone, start - tick) < key < period_key(period, zone, end)


@pytest.mark.parametrize(
    ("zone", "at", "key"),
    [
        ("UTC", "2026-11-30T23:59:59.999999+00:00", "2026-11"),
        ("UTC", "2026-12-01T00:00:00+00:00", "2026-12"),
        ("Europe/Berlin", "2026-11-30T23:00:00+00:00", "2026-12"),
        ("Europe/Berlin", "2026-06-30T21:59:59+00:00", "2026-06"),
        ("Europe/Berlin", "2026-06-30T22:00:00+00:00", "2026-07"),
        ("America/New_York", "2028-03-01T04:59:59+00:00", "2028-02"),
    ],
)
def test_month_ends_are_local(zone: str, at: str, key: str) -> None:
    assert period_key("monthly", zone_of(zone), datetime.fromisoformat(at)) == key


@pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-07-01", 24)])
def test_a_day_is_as_long_as_the_clocks_make_it(day: str, hours: int) -> None:
    zone = zone_of("Europe/Berlin")
    start, end = period_bounds("daily", zone, datetime.fromisoformat(day + "T12:00:00+00:00"))
    assert end - start == timedelta(hours=hours)


def test_weeks_begin_on_monday_and_carry_the_iso_year() -> None:
    utc = zone_of("UTC")
    assert period_key("weekly", utc, datetime(2027, 1, 3, 23, 59, tzinfo=UTC)) == "2026-W53"
    assert period_key("weekly", utc, datetime(2027, 1, 4, tzinfo=UTC)) == "2027-W01"


def test_prepaid_has_one_key_and_no_bounds() -> None:
    assert period_key("prepaid", UTC, datetime(2026, 1, 1, tzinfo=UTC)) == "prepaid"
    with pytest.raises(ValueError, match="prepaid"):
        period_bounds("prepaid", UTC, datetime(2026, 1, 1, tzinfo=UTC))
