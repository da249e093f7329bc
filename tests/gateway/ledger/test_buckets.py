"""Ranges, pages and segments: nothing left out, nothing twice, whatever the edges."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gateway.ledger.buckets import WIDTH_S, Segment, Width, bucket_page, minutes_of, segments

DAY = 1_764_374_400  # 2025-11-29, midnight UTC
minutes = st.integers(DAY // 60 - 5000, DAY // 60 + 5000).map(lambda minute: minute * 60)
widths = st.sampled_from(tuple(WIDTH_S))


def test_a_range_is_cut_at_days_hours_and_minutes() -> None:
    start, end = DAY - 3_600 - 120, DAY + 86_400 + 7_260
    assert segments(start, end) == [
        Segment("1m", start, DAY - 3_600),
        Segment("1h", DAY - 3_600, DAY),
        Segment("1d", DAY, DAY + 86_400),
        Segment("1h", DAY + 86_400, DAY + 86_400 + 7_200),
        Segment("1m", DAY + 86_400 + 7_200, end),
    ]
    assert segments(DAY, DAY + 86_400) == [Segment("1d", DAY, DAY + 86_400)]
    assert segments(DAY, DAY + 86_400, "1h") == [Segment("1h", DAY, DAY + 86_400)]
    assert segments(DAY, DAY) == []


@given(minutes, minutes, widths)
def test_segments_cover_a_range_once(one: int, other: int, coarsest: Width) -> None:
    start, end = min(one, other), max(one, other)
    found = segments(start, end, coarsest)
    assert sum(part.end - part.start for part in found) == end - start
    at = start
    for part in found:
        assert part.start == at, "no gap and no overlap"
        assert part.start % WIDTH_S[part.width] == part.end % WIDTH_S[part.width] == 0
        at = part.end
    assert len(found) <= 5


@given(minutes, st.integers(1, 10_000), widths, st.integers(1, 40))
def test_pages_walk_a_range_once(start: int, count: int, width: Width, limit: int) -> None:
    """Duty C23: a page of buckets is capped whatever the range, and the pages together are the range."""
    end, at, walked = start + count * 60, start, []
    while True:
        page = bucket_page(at, end, width, limit)
        assert 1 <= len(page.buckets) <= limit
        walked += page.buckets
        if page.next_start is None or len(walked) > 2_000:
            break
        at = page.next_start
    assert walked[0].start == start
    assert all(before.end == after.start for before, after in pairwise(walked))
    assert all(bucket.start % WIDTH_S[width] == 0 for bucket in walked[1:])
    assert page.next_start is not None or walked[-1].end == end


def test_seconds_are_widened_to_minutes() -> None:
    assert minutes_of(DAY + 59, DAY + 61) == (DAY, DAY + 120)
    assert minutes_of(DAY, DAY + 60) == (DAY, DAY + 60)
