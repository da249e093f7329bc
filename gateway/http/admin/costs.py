"""`costs`, as OpenAI has it: what was charged per day, by project, key or line item.

Amounts are exact: the ledger's integers of nano-USD are written into the JSON as decimals digit by digit, never as a
binary fraction. A reader whose numbers are doubles still gets the exact amount back, rounded to nine decimals, as long
as a result is below 4 million USD; `amount_nanousd` beside it is the integer itself.
A line item is a served model and what was paid for, `my-model, input_tokens`: one of the three priced components, or
`my-model, adjustments` for what an operator corrected by hand. What belongs to no model is `credits`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Annotated, Literal, get_args

import orjson
from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from gateway.errors import InvalidValue
from gateway.http.admin.common import AdminParts, Json, visible
from gateway.http.admin.usage_query import Ids, RangeParams, UsagePages, first_keys
from gateway.ledger.repository.usage import COST_SUMS, Dimension, SumName, UsageFilter, UsageRow, UsageSums
from gateway.money import decimal_usd

__all__ = ["CostRoutes"]

DAYS_MAX = 180
LINE_DAYS_MAX = 92
"""Of a page with line items, which are several for each model: a quarter, and the next page begins after it."""

ONE_SUM: tuple[SumName, ...] = ("amount_nanousd",)
OTHER_SOURCE = "unlabeled"
COMPONENTS = ("input_tokens", "cached_input_tokens", "output_tokens", "adjustments")
CREDITS = "credits"

CostField = Literal["project_id", "user_id", "api_key_id", "line_item", "api_source"]
_DIMENSIONS: dict[str, Dimension] = {
    "project_id": "tenant_id",
    "user_id": "user_ref",
    "api_key_id": "key_id",
}


class CostParams(RangeParams):
    bucket_width: Literal["1d"] = "1d"
    limit: Annotated[int, Field(ge=1, le=DAYS_MAX)] = 7
    project_ids: Ids = ()
    api_key_ids: Ids = ()
    line_items: Ids = ()
    group_by: Annotated[tuple[CostField, ...], Field(max_length=10)] = ()


class CostRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._pages = UsagePages(parts)

    def register(self, router: APIRouter) -> None:
        router.add_api_route("/costs", self.costs, methods=["GET"])

    async def costs(self, request: Request, params: Annotated[CostParams, Query()]) -> Response:
        lines = [_line(item) for item in params.line_items]
        wanted = UsageFilter(
            tenant_ids=visible(request, params.project_ids),
            key_ids=await first_keys(self._p, params.api_key_ids),
            served_models=[model for model, _ in lines] or None,
        )
        fields = [name for name in _DIMENSIONS if name in params.group_by]
        dimensions = [_DIMENSIONS[name] for name in fields]
        by_line = "line_item" in params.group_by
        if by_line or lines:
            dimensions.append("served_model")
        named = dict.fromkeys(get_args(CostField))
        if "api_source" in params.group_by:
            named["api_source"] = OTHER_SOURCE

        def results(rows: Sequence[UsageRow]) -> list[Json]:
            if by_line or lines:
                return _line_results(rows, fields, frozenset(lines), by_line, named)
            return [_result(row.sums.amount_nanousd, named | _names(fields, row.group)) for row in rows]

        limit, sums = params.limit, ONE_SUM
        if by_line or lines:
            limit, sums = min(limit, LINE_DAYS_MAX), COST_SUMS
        return await self._pages.answer(params, "1d", limit, wanted, dimensions, sums, results)


def _line_results(
    rows: Sequence[UsageRow],
    fields: Sequence[str],
    lines: frozenset[tuple[str, str]],
    by_line: bool,
    named: Json,
) -> list[Json]:
    """Rows that are grouped by `fields` and the served model, as lines, or summed over the lines wanted."""
    found: list[Json] = []
    for group, some in groupby(rows, lambda row: row.group[:-1]):
        names = named | _names(fields, group)
        items = [
            (_item(row.group[-1], component), tokens, amount)
            for row in some
            for component, tokens, amount in _components(row.sums)
            if not lines or (row.group[-1], component) in lines
        ]
        if by_line:
            found += [
                _result(amount, names | {"line_item": item}, tokens)
                for item, tokens, amount in items
                if tokens or amount
            ]
        elif items:
            found.append(_result(sum(amount for _, _, amount in items), names))
    return found


def _components(sums: UsageSums) -> Iterator[tuple[str, int | None, int]]:
    """Component, tokens if it is priced by them, amount. The amounts add up to the whole."""
    tokens = (sums.prompt_uncached_tokens, sums.prompt_cached_tokens, sums.completion_tokens, None)
    priced = (sums.input_nanousd, sums.cached_input_nanousd, sums.output_nanousd)
    return zip(COMPONENTS, tokens, (*priced, sums.amount_nanousd - sum(priced)), strict=True)


def _item(model: str | bool | None, component: str) -> str:
    return f"{model}, {component}" if model else CREDITS


def _line(item: str) -> tuple[str, str]:
    """The served model and the component that a line item names."""
    if item == CREDITS:
        return "", COMPONENTS[-1]
    model, _, component = item.rpartition(", ")
    if component not in COMPONENTS:
        endings = ", ".join(f"', {name}'" for name in COMPONENTS)
        raise InvalidValue(f"A line item is '{CREDITS}' or ends in one of {endings}.", "line_items")
    return model, component


def _names(fields: Sequence[str], group: Sequence[str | bool | None]) -> Json:
    """What belongs to no key or user has none."""
    return {name: value or None for name, value in zip(fields, group, strict=True)}


def _result(amount_nanousd: int, names: Json, tokens: int | None = None) -> Json:
    return {
        "object": "organization.costs.result",
        "amount": {"value": orjson.Fragment(decimal_usd(amount_nanousd)), "currency": "usd"},
        "amount_nanousd": amount_nanousd,
        "quantity": tokens,
        "quantity_unit": "tokens" if tokens is not None else None,
        **names,
    }
