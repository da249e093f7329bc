"""`usage/usual`: today by the hour, beside what is usual: the same hours of the same weekday in the weeks before.

A day is UTC's. The current hour, and the day so far, are compared with the same minutes of the other days, so that a
figure means something at any time. Weeks in which nothing at all happened that day are left out: they say that somebody
was not there yet, not what is usual.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from gateway.http.admin.common import AdminParts, Json, Params, json_answer, visible
from gateway.http.admin.usage_query import Ids, first_keys, sums_json
from gateway.ledger.buckets import WIDTH_S, bucket_page, minutes_of
from gateway.ledger.repository.usage import SHOWN_SUMS, UsageFilter, UsageReader, UsageSums

__all__ = ["UsualRoutes", "spread"]

WEEKS_MAX = 8
WEEK_S = 7 * WIDTH_S["1d"]
HOURS = 24


class UsualParams(Params):
    weeks: Annotated[int, Field(ge=1, le=WEEKS_MAX)] = 4
    project_ids: Ids = ()
    api_key_ids: Ids = ()
    models: Ids = ()


class UsualRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._reader = UsageReader()

    def register(self, router: APIRouter) -> None:
        router.add_api_route("/usage/usual", self.usual, methods=["GET"])

    async def usual(self, request: Request, params: Annotated[UsualParams, Query()]) -> Response:
        now = int(self._p.clock.now().timestamp())
        start, end = minutes_of(now // WIDTH_S["1d"] * WIDTH_S["1d"], now + 1)
        wanted = UsageFilter(
            tenant_ids=visible(request, params.project_ids),
            key_ids=await first_keys(self._p, params.api_key_ids),
            served_models=params.models or None,
        )
        async with self._p.database.read() as session:
            days = []
            for week in range(params.weeks + 1):
                page = bucket_page(start - week * WEEK_S, end - week * WEEK_S, "1h", HOURS)
                rows = await self._reader.buckets(session, page.buckets, "1h", wanted, (), HOURS, SHOWN_SUMS)
                sums = {row.bucket: row.sums for row in rows}
                days.append([sums.get(bucket.start, UsageSums()) for bucket in page.buckets])
        today, earlier = days[0], [day for day in days[1:] if any(hour.requests for hour in day)]
        hours = bucket_page(start, end, "1h", HOURS).buckets
        return json_answer(
            {
                "object": "organization.usage.usual",
                "start_time": start,
                "end_time": end,
                "weeks": len(earlier),
                "data": [
                    {
                        "start_time": hour.start,
                        "end_time": hour.end,
                        **_beside(today[number], [day[number] for day in earlier]),
                    }
                    for number, hour in enumerate(hours)
                ],
                "total": _beside(_sum(today), [_sum(day) for day in earlier]),
            }
        )


def spread(values: Sequence[UsageSums]) -> Json:
    """Figure by figure. The median of two values is the lower one: amounts stay whole."""
    if not values:
        return dict.fromkeys(("usual", "lowest", "highest"))
    shown = [sums_json(value) for value in values]
    ordered = {name: sorted(value[name] for value in shown) for name in shown[0]}
    places = {"usual": (len(shown) - 1) // 2, "lowest": 0, "highest": -1}
    return {word: {name: column[at] for name, column in ordered.items()} for word, at in places.items()}


def _beside(sums: UsageSums, earlier: Sequence[UsageSums]) -> Json:
    return {**sums_json(sums), **spread(earlier)}


def _sum(hours: Sequence[UsageSums]) -> UsageSums:
    return sum(hours, UsageSums())
