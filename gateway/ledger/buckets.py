"""Ranges of time cut into buckets, and each range into the fewest rollup rows that cover it exactly. Pure.

Times are unix seconds (UTC), whole minutes: the finest rollup is a minute's. A page of buckets never holds more than
its limit, whatever the range. What is summed is not known here.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

__all__ = ["WIDTH_S", "Bucket", "BucketPage", "Segment", "Width", "bucket_page", "minutes_of", "segments"]

Width = Literal["1m", "1h", "1d"]
WIDTHS: tuple[Width, ...] = get_args(Width)
WIDTH_S: dict[Width, int] = {"1m": 60, "1h": 3_600, "1d": 86_400}


class Bucket(NamedTuple):
    """From `start`, inclusive, to `end`, exclusive. The first and the last of a range may be cut short by it."""

    start: int
    end: int


class BucketPage(NamedTuple):
    """`next_start`: where the next page begins; None if this is the last."""

    buckets: tuple[Bucket, ...]
    next_start: int | None


class Segment(NamedTuple):
    """Whole buckets of one width."""

    width: Width
    start: int
    end: int


def minutes_of(start: int, end: int) -> tuple[int, int]:
    """The smallest range of whole minutes that holds both."""
    minute = WIDTH_S["1m"]
    return start // minute * minute, -(-end // minute) * minute


def bucket_page(start: int, end: int, width: Width, limit: int) -> BucketPage:
    """The first `limit` buckets of the range. They begin at multiples of the width, but for the first."""
    assert start < end
    assert limit > 0
    unit = WIDTH_S[width]
    buckets: list[Bucket] = []
    while start < end and len(buckets) < limit:
        until = min((start // unit + 1) * unit, end)
        buckets.append(Bucket(start, until))
        start = until
    return BucketPage(tuple(buckets), start if start < end else None)


def segments(start: int, end: int, coarsest: Width = "1d") -> Sequence[Segment]:
    """The range in whole buckets: minutes up to the first whole hour, hours up to the first whole day, days, and
    the same backwards at its end."""
    if start >= end:
        return []
    level = WIDTHS.index(coarsest)
    if level == 0:
        assert start % WIDTH_S["1m"] == end % WIDTH_S["1m"] == 0, "whole minutes"
        return [Segment("1m", start, end)]
    unit, finer = WIDTH_S[coarsest], WIDTHS[level - 1]
    first, last = -(-start // unit) * unit, end // unit * unit
    if first >= last:
        return segments(start, end, finer)
    inner = Segment(coarsest, first, last)
    return [*segments(start, first, finer), inner, *segments(last, end, finer)]
