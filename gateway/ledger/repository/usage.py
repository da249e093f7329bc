"""Sums of usage per bucket and dimension.

Read from the rollups: what a query costs depends on the range and on how many combinations were in use, not on how
many requests there were. The rollups do not know end users: questions about those are answered from the events, and
`buckets_within` says how much of a page that may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    Subquery,
    and_,
    case,
    cast,
    func,
    or_,
    select,
    tuple_,
    union_all,
)

from gateway.db import ReadSession
from gateway.ledger.buckets import Bucket, Segment, Width, segments
from gateway.ledger.models import RollupDay, RollupHour, RollupMinute, UsageEvent

__all__ = [
    "COST_SUMS",
    "DIMENSIONS",
    "SHOWN_SUMS",
    "SUMS",
    "TOKEN_SUMS",
    "Dimension",
    "Order",
    "StoredDimension",
    "SumName",
    "UsageFilter",
    "UsageReader",
    "UsageRow",
    "UsageSums",
    "needs_events",
]

BATCH = "batch"
EMBEDDINGS = "embeddings"

StoredDimension = Literal[
    "tenant_id", "key_id", "served_model", "pool_id", "endpoint", "request_class", "status"
]
Dimension = Literal[StoredDimension, "is_batch", "user_ref"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
SumName = Literal[
    "requests",
    "prompt_uncached_tokens",
    "prompt_cached_tokens",
    "completion_tokens",
    "reasoning_tokens",
    "input_nanousd",
    "cached_input_nanousd",
    "output_nanousd",
    "amount_nanousd",
]
SUMS: tuple[SumName, ...] = get_args(SumName)
COST_SUMS: tuple[SumName, ...] = (*SUMS[1:4], *SUMS[5:])
TOKEN_SUMS: tuple[SumName, ...] = SUMS[:4]
SHOWN_SUMS: tuple[SumName, ...] = (*TOKEN_SUMS, "amount_nanousd")
"""What the API's own resources show."""

Order = Literal["requests", "prompt_tokens", "completion_tokens", "amount_nanousd"]
_STORED: tuple[StoredDimension, ...] = get_args(StoredDimension)
_UNITS: dict[Width, str] = {"1m": "minute", "1h": "hour", "1d": "day"}
_ROLLUPS: dict[Width, Any] = {
    "1m": RollupMinute.__table__,
    "1h": RollupHour.__table__,
    "1d": RollupDay.__table__,
}


@dataclass(frozen=True, slots=True)
class UsageSums:
    """Corrections are in the tokens and the money; they are no requests."""

    requests: int = 0
    prompt_uncached_tokens: int = 0
    prompt_cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    input_nanousd: int = 0
    cached_input_nanousd: int = 0
    output_nanousd: int = 0
    amount_nanousd: int = 0

    @property
    def prompt_tokens(self) -> int:
        return self.prompt_uncached_tokens + self.prompt_cached_tokens

    def __add__(self, other: UsageSums) -> UsageSums:
        return UsageSums(*(getattr(self, name) + getattr(other, name) for name in SUMS))


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """Every field narrows; None does not. An empty list lets nothing through."""

    tenant_ids: Sequence[str] | None = None
    key_ids: Sequence[str] | None = None
    served_models: Sequence[str] | None = None
    pool_ids: Sequence[str] | None = None
    request_classes: Sequence[str] | None = None
    statuses: Sequence[str] | None = None
    is_batch: bool | None = None
    is_embeddings: bool | None = None
    user_refs: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class UsageRow:
    """`bucket` is the start of the bucket that holds it; `group` has the values of the dimensions asked for."""

    bucket: int
    group: tuple[str | bool | None, ...]
    sums: UsageSums


class UsageReader:
    async def buckets(
        self,
        session: ReadSession,
        page: Sequence[Bucket],
        width: Width,
        wanted: UsageFilter,
        group_by: Sequence[Dimension],
        limit: int,
        sums: Sequence[SumName] = SUMS,
    ) -> list[UsageRow]:
        """At most `limit` rows, by bucket and group. `page` is one of `buckets.bucket_page`. Sums that are not asked
        for are 0: each costs its share of the time."""
        start, end = page[0].start, page[-1].end
        source = _source(start, end, width, wanted, group_by)
        columns = [source.c.bucket, *_group_columns(source, group_by)]
        query = _summed(source, columns, sums).order_by(*(column.name for column in columns)).limit(limit)
        found = (await session.execute(query)).all()
        last = 1 + len(group_by)
        return [
            UsageRow(max(start, int(row[0].timestamp())), tuple(row[1:last]), _sums(sums, row[last:]))
            for row in found
        ]

    async def top(
        self,
        session: ReadSession,
        start: int,
        end: int,
        wanted: UsageFilter,
        group_by: StoredDimension,
        order: Order,
        limit: int,
        only: Sequence[str] | None = None,
    ) -> tuple[UsageSums, dict[str, UsageSums]]:
        """The sums of the whole range, and those of the groups that have most of `order`, largest first; one pass.
        `only`: of these groups, whatever they have; the whole is the whole all the same."""
        source = _source(start, end, "1d", wanted, (group_by,))
        column = source.c[group_by]
        whole_first = func.grouping(column)
        sets = func.grouping_sets(tuple_(column), tuple_())
        query = _summed(source, [whole_first, column], SHOWN_SUMS, sets)
        if only is not None:
            query = query.having(or_(whole_first == 1, column.in_(only)))
        query = query.order_by(whole_first.desc(), _ordered(source, order).desc(), column).limit(limit + 1)
        found = (await session.execute(query)).all()
        whole = _sums(SHOWN_SUMS, [value or 0 for value in found[0][2:]])
        return whole, {row[1]: _sums(SHOWN_SUMS, row[2:]) for row in found[1:]}

    async def buckets_within(
        self,
        session: ReadSession,
        page: Sequence[Bucket],
        width: Width,
        wanted: UsageFilter,
        events_max: int,
    ) -> int:
        """How many of the page's buckets may be answered from the events, by their number; at least one. Those of
        named users are counted, others are as many as the rollups say."""
        if wanted.user_refs is not None:
            table = UsageEvent.__table__.c
            start, end = _at(page[0].start), _at(page[-1].end)
            theirs = select(table.event_id).where(
                table.user_ref.in_(wanted.user_refs), table.occurred_at >= start, table.occurred_at < end
            )
            some = theirs.limit(events_max + 1).subquery()
            if await session.scalar(select(func.count() <= events_max).select_from(some)):
                return len(page)
        without_users = replace(wanted, user_refs=None)
        rows = await self.buckets(session, page, width, without_users, (), len(page), ("requests",))
        counts = {row.bucket: row.sums.requests for row in rows}
        total = 0
        for number, bucket in enumerate(page):
            total += counts.get(bucket.start, 0)
            if total > events_max:
                return max(1, number)
        return len(page)


def needs_events(wanted: UsageFilter, group_by: Sequence[Dimension]) -> bool:
    return wanted.user_refs is not None or "user_ref" in group_by


def _source(
    start: int, end: int, width: Width, wanted: UsageFilter, group_by: Sequence[Dimension]
) -> Subquery:
    """Rows that hold the sums and all the dimensions asked for, each with its bucket of the width."""
    if needs_events(wanted, group_by):
        return _events(start, end, width, wanted).subquery("usage")
    parts = [_segment(part, width, wanted) for part in segments(start, end, width)]
    return union_all(*parts).subquery("usage")


def _events(start: int, end: int, width: Width, wanted: UsageFilter) -> Select[Any]:
    table = UsageEvent.__table__.c
    is_request = and_(table.corrects.is_(None), table.kind == "request")
    columns = [
        func.date_trunc(_UNITS[width], table.occurred_at, "UTC").label("bucket"),
        *(table[name] for name in (*_STORED, "user_ref")),
        case((is_request, 1), else_=0).label("requests"),
        *(table[name] for name in SUMS if name != "requests"),
    ]
    query = select(*columns).where(table.occurred_at >= _at(start), table.occurred_at < _at(end))
    return query.where(*_conditions(table, wanted))


def _segment(part: Segment, width: Width, wanted: UsageFilter) -> Select[Any]:
    table = _ROLLUPS[part.width].c
    bucket = table.bucket
    if part.width != width:
        bucket = func.date_trunc(_UNITS[width], bucket, "UTC").label("bucket")
    query = select(bucket, *(table[name] for name in (*_STORED, *SUMS)))
    query = query.where(table.bucket >= _at(part.start), table.bucket < _at(part.end))
    return query.where(*_conditions(table, wanted))


def _conditions(columns: Any, wanted: UsageFilter) -> list[ColumnElement[bool]]:
    lists = {
        "tenant_id": wanted.tenant_ids,
        "key_id": wanted.key_ids,
        "served_model": wanted.served_models,
        "pool_id": wanted.pool_ids,
        "request_class": wanted.request_classes,
        "status": wanted.statuses,
        "user_ref": wanted.user_refs,
    }
    found = [columns[name].in_(values) for name, values in lists.items() if values is not None]
    for column, value, is_wanted in (
        ("request_class", BATCH, wanted.is_batch),
        ("endpoint", EMBEDDINGS, wanted.is_embeddings),
    ):
        if is_wanted is not None:
            found.append(columns[column] == value if is_wanted else columns[column] != value)
    return found


def _group_columns(source: Subquery, group_by: Sequence[Dimension]) -> list[ColumnElement[Any]]:
    is_batch = source.c.request_class == BATCH
    return [(is_batch if name == "is_batch" else source.c[name]).label(name) for name in group_by]


def _summed(
    source: Subquery, columns: Sequence[ColumnElement[Any]], sums: Sequence[SumName], *groups: Any
) -> Select[Any]:
    """Grouped by the columns, unless `groups` says how."""
    summed = [cast(func.sum(source.c[name]), BigInteger).label(name) for name in sums]
    return select(*columns, *summed).group_by(*(groups or columns))


def _ordered(source: Subquery, order: Order) -> ColumnElement[Any]:
    if order == "prompt_tokens":
        return func.sum(source.c.prompt_uncached_tokens + source.c.prompt_cached_tokens)
    return func.sum(source.c[order])


def _sums(names: Sequence[SumName], values: Sequence[int]) -> UsageSums:
    return UsageSums(**dict(zip(names, values, strict=True)))


def _at(unix: int) -> datetime:
    return datetime.fromtimestamp(unix, UTC)
