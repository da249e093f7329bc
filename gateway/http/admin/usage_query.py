"""What the usage and cost routes share: the range and its page, the filters, and the bucketed answer.

The shapes are OpenAI's. It does not know what is summed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Annotated

from fastapi import Response
from pydantic import Field

from gateway.errors import InvalidValue
from gateway.http.admin.common import AdminParts, Json, Params, json_answer
from gateway.ledger.buckets import WIDTH_S, BucketPage, Width, bucket_page, minutes_of
from gateway.ledger.repository.usage import (
    Dimension,
    SumName,
    UsageFilter,
    UsageReader,
    UsageRow,
    UsageSums,
    needs_events,
)
from gateway.tenancy.repository import TenancyRepository

__all__ = [
    "Ids",
    "RangeParams",
    "Rows",
    "TimeParams",
    "UnixTime",
    "UsagePages",
    "begin_of",
    "cursor_page",
    "first_keys",
    "fitting",
    "range_of",
    "sums_json",
]

ROWS_MAX = 3_000
"""Results of one page, over all its buckets: a page holds fewer buckets than its limit rather than more rows."""

BUCKET_ROWS_MAX = 20_000
"""Results of a bucket that has a page for itself, since a bucket is never divided."""

EVENTS_MAX = 25_000
"""Events that one page may sum up when the rollups cannot answer: of a busy day, a page holds that day alone."""

TIME_MAX = 32_503_680_000  # the year 3000
PAGE_PREFIX = "page_"

UnixTime = Annotated[int, Field(ge=0, le=TIME_MAX)]
Ids = Annotated[tuple[Annotated[str, Field(max_length=200)], ...], Field(max_length=100)]
Rows = Callable[[Sequence[UsageRow]], list[Json]]


class TimeParams(Params):
    """From `start_time`, inclusive, to `end_time`, exclusive; until now, when there is no end."""

    start_time: UnixTime
    end_time: UnixTime | None = None


class RangeParams(TimeParams):
    page: Annotated[str, Field(max_length=40)] | None = None


class UsagePages:
    """Pages of buckets, read in one transaction each."""

    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._reader = UsageReader()

    async def answer(
        self,
        params: RangeParams,
        width: Width,
        limit: int,
        wanted: UsageFilter,
        group_by: Sequence[Dimension],
        sums: Sequence[SumName],
        results: Rows,
    ) -> Response:
        start, end = range_of(params, width, int(self._p.clock.now().timestamp()))
        begin = begin_of(params.page, start, end)
        if begin >= end:
            return json_answer(cursor_page([], None))
        page = bucket_page(begin, end, width, limit)

        async with self._p.database.read() as session:

            async def read(part: BucketPage, most: int) -> list[UsageRow]:
                return await self._reader.buckets(session, part.buckets, width, wanted, group_by, most, sums)

            if needs_events(wanted, group_by):
                fit = await self._reader.buckets_within(session, page.buckets, width, wanted, EVENTS_MAX)
                page = bucket_page(begin, end, width, fit)
            rows = await read(page, ROWS_MAX + 1)
            if len(rows) > ROWS_MAX:
                page = fitting(page, rows[-1].bucket)
                rows = [row for row in rows if row.bucket < page.buckets[-1].end]
            if len(rows) > ROWS_MAX:
                rows = await read(page, BUCKET_ROWS_MAX + 1)
        if len(rows) > BUCKET_ROWS_MAX:
            raise InvalidValue(
                f"A bucket has more than {BUCKET_ROWS_MAX} results: filter, group by less, or take narrower ones.",
                "group_by",
            )
        found = {bucket: results(list(some)) for bucket, some in groupby(rows, lambda row: row.bucket)}
        data = [
            {
                "object": "bucket",
                "start_time": bucket.start,
                "end_time": bucket.end,
                "results": found.get(bucket.start, []),
            }
            for bucket in page.buckets
        ]
        return json_answer(cursor_page(data, page.next_start))


async def first_keys(parts: AdminParts, key_ids: Sequence[str]) -> Sequence[str] | None:
    """What a rotated key did is kept under the first key of its rotations. None when no key was asked for."""
    if not key_ids:
        return None
    async with parts.database.read() as session:
        return await TenancyRepository().first_ids(session, key_ids)


def range_of(params: TimeParams, width: Width, now: int) -> tuple[int, int]:
    """Whole minutes. Without an end the range goes to the end of the current bucket."""
    if params.end_time is None:
        return minutes_of(params.start_time, (now // WIDTH_S[width] + 1) * WIDTH_S[width])
    if params.end_time <= params.start_time:
        raise InvalidValue("'end_time' must be after 'start_time'.", "end_time")
    return minutes_of(params.start_time, params.end_time)


def fitting(page: BucketPage, cut: int) -> BucketPage:
    """What remains of a page when there was no room for all the results of the bucket that begins at `cut`: the next
    page begins with it. If it is the page's first, it is the page."""
    last = next(number for number, bucket in enumerate(page.buckets) if bucket.start == cut)
    kept = page.buckets[: max(1, last)]
    is_all = len(kept) == len(page.buckets)
    return BucketPage(kept, page.next_start if is_all else kept[-1].end)


def sums_json(sums: UsageSums) -> Json:
    """As our own resources show them."""
    return {
        "num_model_requests": sums.requests,
        "input_tokens": sums.prompt_tokens,
        "input_cached_tokens": sums.prompt_cached_tokens,
        "output_tokens": sums.completion_tokens,
        "amount_nanousd": sums.amount_nanousd,
    }


def begin_of(page: str | None, start: int, end: int) -> int:
    if page is None:
        return start
    try:
        begin = int(page.removeprefix(PAGE_PREFIX), 16)
    except ValueError:
        begin = -1
    if not page.startswith(PAGE_PREFIX) or not start < begin < end or begin % WIDTH_S["1m"]:
        raise InvalidValue("This is no page of this query.", "page")
    return begin


def cursor_page(data: list[Json], next_start: int | None) -> Json:
    return {
        "object": "page",
        "data": data,
        "has_more": next_start is not None,
        "next_page": f"{PAGE_PREFIX}{next_start:x}" if next_start is not None else None,
    }
