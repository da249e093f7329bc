"""`usage/breakdown`: who or what made up a range of time, largest first, beside another range of time.

OpenAI's buckets cannot rank, so this is our own resource. Of one dimension at a time: filters narrow it further.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from gateway.errors import InvalidValue
from gateway.http.admin.common import AdminParts, Json, bound_to, json_answer, visible
from gateway.http.admin.usage_query import Ids, TimeParams, UnixTime, first_keys, range_of, sums_json
from gateway.ledger.buckets import minutes_of
from gateway.ledger.repository.usage import Order, StoredDimension, UsageFilter, UsageReader, UsageSums
from gateway.ledger.types import SettlementStatus

__all__ = ["BreakdownRoutes"]

GROUPS_MAX = 100

GroupField = Literal["project_id", "api_key_id", "model", "pool_id", "endpoint", "class", "status"]
OrderField = Literal["cost", "requests", "input_tokens", "output_tokens"]
_DIMENSIONS: dict[str, StoredDimension] = {
    "project_id": "tenant_id",
    "api_key_id": "key_id",
    "model": "served_model",
    "pool_id": "pool_id",
    "endpoint": "endpoint",
    "class": "request_class",
    "status": "status",
}
_ORDERS: dict[str, Order] = {
    "cost": "amount_nanousd",
    "requests": "requests",
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
}


class BreakdownParams(TimeParams):
    """The compared range is as long as the range itself unless it has an end of its own."""

    group_by: GroupField
    order_by: OrderField = "cost"
    limit: Annotated[int, Field(ge=1, le=GROUPS_MAX)] = 20
    compare_start_time: UnixTime | None = None
    compare_end_time: UnixTime | None = None
    project_ids: Ids = ()
    api_key_ids: Ids = ()
    models: Ids = ()
    pool_ids: Ids = ()
    classes: Ids = ()
    statuses: tuple[SettlementStatus, ...] = ()


class BreakdownRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._reader = UsageReader()

    def register(self, router: APIRouter) -> None:
        router.add_api_route("/usage/breakdown", self.breakdown, methods=["GET"])

    async def breakdown(self, request: Request, params: Annotated[BreakdownParams, Query()]) -> Response:
        if bound_to(request) is not None and (params.group_by == "pool_id" or params.pool_ids):
            raise InvalidValue("Pools are the operator's.", "pool_id")
        now = max(int(self._p.clock.now().timestamp()), params.start_time)
        range_ = range_of(params, "1m", now)
        wanted = _filter(request, params, await first_keys(self._p, params.api_key_ids))
        dimension, order = _DIMENSIONS[params.group_by], _ORDERS[params.order_by]
        limit, other = params.limit, _other_range(params, *range_)
        async with self._p.database.read() as session:
            whole, groups = await self._reader.top(session, *range_, wanted, dimension, order, limit + 1)
            names = list(groups)[:limit]
            compared: dict[str, UsageSums] = {}
            compared_whole = None
            if other is not None:
                compared_whole, compared = await self._reader.top(
                    session, *other, wanted, dimension, order, limit, only=names
                )

        def beside(sums: UsageSums, then: UsageSums | None) -> Json:
            return {**sums_json(sums), "compared": sums_json(then or UsageSums()) if other else None}

        return json_answer(
            {
                "object": "organization.usage.breakdown",
                "start_time": range_[0],
                "end_time": range_[1],
                "compare_start_time": other[0] if other is not None else None,
                "compare_end_time": other[1] if other is not None else None,
                "total": beside(whole, compared_whole),
                "data": [
                    {params.group_by: name or None, **beside(groups[name], compared.get(name))}
                    for name in names
                ],
                "has_more": len(groups) > limit,
            }
        )


def _other_range(params: BreakdownParams, start: int, end: int) -> tuple[int, int] | None:
    first, last = params.compare_start_time, params.compare_end_time
    if first is None:
        if last is not None:
            raise InvalidValue("'compare_end_time' needs a 'compare_start_time'.", "compare_end_time")
        return None
    last = first + end - start if last is None else last
    if last <= first:
        raise InvalidValue("'compare_end_time' must be after 'compare_start_time'.", "compare_end_time")
    return minutes_of(first, last)


def _filter(request: Request, params: BreakdownParams, key_ids: Sequence[str] | None) -> UsageFilter:
    return UsageFilter(
        tenant_ids=visible(request, params.project_ids),
        key_ids=key_ids,
        served_models=params.models or None,
        pool_ids=params.pool_ids or None,
        request_classes=params.classes or None,
        statuses=params.statuses or None,
    )
