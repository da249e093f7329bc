"""Charts of a pool: queue, KV memory, running requests and speed of each replica, for the last day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field

from gateway.errors import InvalidValue, NotFound
from gateway.http.admin.common import AdminParts, Json, Params, json_answer
from gateway.http.admin.usage_query import UnixTime, cursor_page
from gateway.ids import PoolId
from gateway.pool.repository import PoolRepository
from gateway.pool.samples import SamplePoint, charted

__all__ = ["SampleRoutes"]

RANGE_S = 3_600
RANGE_MAX_S = 86_400
POINTS_MAX = 300
"""Of a page. A step is at least so long that the range fits."""
ROWS_MAX = 10_000
"""Of one page, over all replicas: with more of them than fit, a page has fewer steps."""


class SampleParams(Params):
    """The last hour, unless it says when. `page`: where the last one ended."""

    start_time: UnixTime | None = None
    end_time: UnixTime | None = None
    step_s: Annotated[int, Field(ge=10, le=3_600)] = 30
    limit: Annotated[int, Field(ge=1, le=POINTS_MAX)] = 120
    page: Annotated[str, Field(max_length=40)] | None = None


class SampleRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._pools = PoolRepository()

    def register(self, router: APIRouter) -> None:
        router.add_api_route("/pools/{pool_id}/samples", self.samples, methods=["GET"])

    async def samples(self, pool_id: str, params: Annotated[SampleParams, Query()]) -> Response:
        """Steps in which no replica answered are not there: a gap stays a gap."""
        start, end = self._range(params)
        until = min(end, start + params.step_s * params.limit)
        async with self._p.database.read() as session:
            if await self._pools.pool(session, PoolId(pool_id)) is None:
                raise NotFound("No such pool.")
            points = await charted(session, pool_id, _at(start), _at(until), params.step_s, ROWS_MAX + 1)
        steps = [(at, list(some)) for at, some in groupby(points, lambda point: point.bucket)]
        if len(points) > ROWS_MAX:
            until = int(steps.pop()[0].timestamp())
        data = [_step(at, some, params.step_s) for at, some in steps]
        return json_answer(cursor_page(data, until if until < end else None))

    def _range(self, params: SampleParams) -> tuple[int, int]:
        """Whole steps."""
        now, step = int(self._p.clock.now().timestamp()), params.step_s
        end = params.end_time if params.end_time is not None else now + 1
        start = params.start_time if params.start_time is not None else end - RANGE_S
        if not start < end <= start + RANGE_MAX_S:
            raise InvalidValue("'end_time' must be after 'start_time', by a day at most.", "end_time")
        start, end = start // step * step, -(-end // step) * step
        if params.page is None:
            return start, end
        try:
            begin = int(params.page.removeprefix("page_"), 16)
        except ValueError:
            begin = -1
        if not params.page.startswith("page_") or not start < begin < end:
            raise InvalidValue("This is no page of this query.", "page")
        return begin, end


def _at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _step(at: datetime, points: list[SamplePoint], step_s: int) -> Json:
    return {
        "object": "organization.pool.sample",
        "start_time": int(at.timestamp()),
        "end_time": int((at + timedelta(seconds=step_s)).timestamp()),
        "replicas": [
            {
                "replica_id": point.replica_id,
                "running": point.running,
                "waiting": point.waiting,
                "waiting_max": point.waiting_max,
                "kv_usage_max": point.kv_usage_max,
                "tokens_per_s": point.tokens_per_s,
                "preemptions": point.preemptions,
            }
            for point in points
        ],
    }
