"""How promises are kept: the board, and series for charts. A project sees its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from gateway.errors import InvalidValue
from gateway.http.admin.common import AdminParts, Json, Params, bound_to, json_answer, unix, visible
from gateway.http.admin.objectives import milliseconds
from gateway.http.admin.usage_query import Ids, RangeParams, begin_of, cursor_page, range_of
from gateway.ledger.buckets import WIDTH_S, Width, bucket_page
from gateway.slo.histogram import Histogram, percentile
from gateway.slo.repository.board import BoardLine, BoardReader, SeriesState
from gateway.slo.repository.series import Point, Selection, SeriesReader
from gateway.slo.repository.trend import STEP_S, Trend
from gateway.slo.types import ALL_TENANTS, MILLION, RequestClass

__all__ = ["SloRoutes"]

BUCKETS: Mapping[Width, tuple[int, int]] = {"1m": (60, 240), "1h": (24, 168), "1d": (31, 100)}
"""Of a page, by width: usually, and at most."""
OFFSET_MAX = 100_000
PERCENTILES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
Latency = Literal["ttft", "tpot", "e2e"]


class BoardParams(Params):
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    page: Annotated[str, Field(max_length=40)] | None = None
    project_ids: Ids = ()
    models: Ids = ()


class SeriesParams(RangeParams):
    """`latencies`: which histograms are wanted, all by default. `pool_ids` narrow the latencies, not the counts."""

    bucket_width: Width = "1h"
    limit: Annotated[int, Field(ge=1, le=max(most for _, most in BUCKETS.values()))] | None = None
    project_ids: Ids = ()
    models: Ids = ()
    pool_ids: Ids = ()
    request_class: Annotated[RequestClass, Field(alias="class")] = "interactive"
    latencies: tuple[Latency, ...] = ("ttft", "tpot", "e2e")


class SloRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._board = BoardReader()
        self._series = SeriesReader()

    def register(self, router: APIRouter) -> None:
        router.add_api_route("/slo/board", self.board, methods=["GET"])
        router.add_api_route("/slo/series", self.series, methods=["GET"])

    async def board(self, request: Request, params: Annotated[BoardParams, Query()]) -> Response:
        """Every project × model, worst first; an administrator also sees all projects together, as no project."""
        offset, now = _offset(params.page), self._p.clock.now()
        tenants = visible(request, params.project_ids)
        async with self._p.database.read() as session:
            lines = await self._board.page(
                session, now, tenants, params.models or None, offset, params.limit + 1
            )
        more = offset + params.limit if len(lines) > params.limit else None
        return json_answer(cursor_page([_line(line) for line in lines[: params.limit]], more))

    async def series(self, request: Request, params: Annotated[SeriesParams, Query()]) -> Response:
        if bound_to(request) is not None and params.pool_ids:
            raise InvalidValue("Pools are the operator's.", "pool_ids")
        width, unit = params.bucket_width, WIDTH_S[params.bucket_width]
        usual, most = BUCKETS[width]
        if params.limit is not None and params.limit > most:
            raise InvalidValue(f"At most {most} buckets of this width fit on a page.", "limit")
        start, end = range_of(params, width, int(self._p.clock.now().timestamp()))
        start, end = start // unit * unit, -(-end // unit) * unit  # whole buckets: their rows are not divided
        begin = begin_of(params.page, start, end)
        if begin >= end:  # it lies in the future
            return json_answer(cursor_page([], None))
        page = bucket_page(begin, end, width, params.limit or usual)
        wanted = Selection(
            request_class=params.request_class,
            tenant_ids=visible(request, params.project_ids),
            models=params.models or None,
            pool_ids=params.pool_ids or None,
        )
        async with self._p.database.read() as session:
            points = await self._series.points(session, page.buckets, width, wanted, set(params.latencies))
        data = [
            {
                "object": "organization.slo.bucket",
                "start_time": bucket.start,
                "end_time": bucket.end,
                **_point(points.get(bucket.start, Point())),
            }
            for bucket in page.buckets
        ]
        return json_answer(cursor_page(data, page.next_start))


def _offset(page: str | None) -> int:
    """The order changes as time goes on, so a place in it is a number."""
    if page is None:
        return 0
    try:
        offset = int(page.removeprefix("page_"), 16)
    except ValueError:
        offset = -1
    if not page.startswith("page_") or not 0 < offset <= OFFSET_MAX:
        raise InvalidValue("This is no page of this query.", "page")
    return offset


def _line(line: BoardLine) -> Json:
    is_all = line.tenant_id == ALL_TENANTS
    return {
        "object": "organization.slo.line",
        "id": f"{line.tenant_id}/{line.served_model}",
        "scope": "all_projects" if is_all else "project",
        "project_id": None if is_all else line.tenant_id or None,
        "model": line.served_model or None,
        "budget_left": line.budget_left,
        "burn_1h": line.burn,
        "ttft_p95_ms": milliseconds(line.ttft_p95_us),
        "tpot_p95_ms": milliseconds(line.tpot_p95_us),
        "tokens_per_s": line.tokens_per_s,
        "trend": _trend(line.trend) if line.trend is not None else None,
        "evaluated_at": unix(max(one.evaluated_at for one in line.states)) if line.states else None,
        "series": [_state(one) for one in line.states],
    }


def _trend(trend: Trend) -> Json:
    return {
        "start_time": unix(trend.start),
        "step_s": STEP_S,
        "ttft_p95_ms": [milliseconds(value) for value in trend.ttft_p95_us],
        "tpot_p95_ms": [milliseconds(value) for value in trend.tpot_p95_us],
        "tokens_per_s": trend.tokens_per_s,
        "burn": trend.burn,
    }


def _state(state: SeriesState) -> Json:
    return {
        "objective_id": state.objective_id,
        "class": state.request_class,
        "sli": state.sli,
        "threshold_ms": milliseconds(state.threshold_us or None),
        "target": state.target_ppm / MILLION,
        "good": state.good,
        "total": state.total,
        "budget_left": state.budget_left,
        "burn": state.burn,
    }


def _point(point: Point) -> Json:
    return {
        **{name: _percentiles(histogram) for name, histogram in point.histograms.items()},
        "counts": [
            {
                "sli": sli,
                "threshold_ms": milliseconds(threshold_us or None),
                "good": sums.good,
                "total": sums.total,
            }
            for (sli, threshold_us), sums in sorted(point.counts.items())
        ],
    }


def _percentiles(histogram: Histogram) -> Json:
    """A gap stays a gap: no value where nothing was measured."""
    found = {name: milliseconds(percentile(histogram, share)) for name, share in PERCENTILES.items()}
    return {"count": sum(histogram.values()), **found}
