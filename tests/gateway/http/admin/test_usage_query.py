"""Ranges and the cap on rows; pages and filters are tested with the client (test_usage.py, test_costs.py)."""

from __future__ import annotations

import pytest

from gateway.errors import InvalidValue
from gateway.http.admin.usage_query import RangeParams, fitting, range_of
from gateway.ledger.buckets import BucketPage, bucket_page

NOW = 1_764_374_400 + 3_600 + 61  # 01:01:01


def test_ranges_are_whole_minutes() -> None:
    assert range_of(RangeParams(start_time=NOW - 1, end_time=NOW), "1d", NOW) == (NOW - 1, NOW + 59)
    assert range_of(RangeParams(start_time=0), "1h", NOW) == (0, NOW - 61 + 3_600)
    with pytest.raises(InvalidValue):
        range_of(RangeParams(start_time=5, end_time=5), "1d", NOW)


def test_a_page_has_fewer_buckets_rather_than_too_many_rows() -> None:
    """Duty C23: a bucket whose results do not fit goes to the next page whole, or has a page for itself."""
    page = bucket_page(0, 300, "1m", 3)
    assert fitting(page, 60) == BucketPage(page.buckets[:1], 60)
    assert fitting(page, 120) == BucketPage(page.buckets[:2], 120)
    assert fitting(page, 0) == BucketPage(page.buckets[:1], 60)
    alone = bucket_page(240, 300, "1m", 3)
    assert fitting(alone, 240) == alone
