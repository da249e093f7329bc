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
    extract,
    func,
    or_,
    select,
    tuple_,
    union_all,
)

from gateway.db import ReadSession
from gateway.ledger.buckets import WIDTH_S, Bucket, Segment, Width, segments
from gateway.ledger.models import RollupDay, RollupHour, RollupMinute, UsageEvent

__all__ = [
    "DIMENSIONS",
    "Dimension",
    "Order",
    "StoredDimension",
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
Order = Literal["requests", "prompt_tokens", "completion_tokens", "amount_nanousd"]
_STORED: tuple[StoredDimension, ...] = get_args(StoredDimension)
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
        return UsageSums(*(getattr(self, name) + getattr(other, name) for name in _SUMS))


_SUMS = tuple(UsageSums.__dataclass_fields__)


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
    ) -> list[UsageRow]:
        """At most `limit` rows, by bucket and group. `page` is one of `buckets.bucket_page`."""
        start, end = page[0].start, page[-1].end
        source = _source(start, end, width, wanted, group_by)
        unit = WIDTH_S[width]
        bucket = func.greatest(source.c.at // unit * unit, start)
        columns = [bucket.label("bucket"), *_group_columns(source, group_by)]
        query = _summed(source, columns).order_by(*(column.name for column in columns)).limit(limit)
        found = await session.execute(query)
        return [_row(row, len(group_by)) for row in found]

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
        query = _summed(source, [whole_first, column], func.grouping_sets(tuple_(column), tuple_()))
        if only is not None:
            query = query.having(or_(whole_first == 1, column.in_(only)))
        query = query.order_by(whole_first.desc(), _ordered(source, order).desc(), column).limit(limit + 1)
        found = (await session.execute(query)).all()
        whole = UsageSums(*(value or 0 for value in found[0][2:]))
        return whole, {row[1]: UsageSums(*row[2:]) for row in found[1:]}

    async def buckets_within(
        self,
        session: ReadSession,
        page: Sequence[Bucket],
        width: Width,
        wanted: UsageFilter,
        events_max: int,
    ) -> int:
        """How many of the page's buckets together have at most so many events, as the rollups say; at least one."""
        without_users = replace(wanted, user_refs=None)
        rows = await self.buckets(session, page, width, without_users, (), len(page))
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
    """Rows that hold the sums and all the dimensions asked for, with `at` in unix seconds."""
    if needs_events(wanted, group_by):
        return _events(start, end, wanted).subquery("usage")
    return union_all(*(_segment(part, wanted) for part in segments(start, end, width))).subquery("usage")


def _events(start: int, end: int, wanted: UsageFilter) -> Select[Any]:
    table = UsageEvent.__table__.c
    is_request = and_(table.corrects.is_(None), table.kind == "request")
    columns = [
        _unix(table.occurred_at),
        *(table[name] for name in (*_STORED, "user_ref")),
        case((is_request, 1), else_=0).label("requests"),
        *(table[name] for name in _SUMS if name != "requests"),
    ]
    query = select(*columns).where(table.occurred_at >= _at(start), table.occurred_at < _at(end))
    return query.where(*_conditions(table, wanted))


def _segment(part: Segment, wanted: UsageFilter) -> Select[Any]:
    table = _ROLLUPS[part.width].c
    query = select(_unix(table.bucket), *(table[name] for name in (*_STORED, *_SUMS)))
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


def _summed(source: Subquery, columns: Sequence[ColumnElement[Any]], *groups: Any) -> Select[Any]:
    """Grouped by the columns, unless `groups` says how."""
    sums = [cast(func.sum(source.c[name]), BigInteger).label(name) for name in _SUMS]
    return select(*columns, *sums).group_by(*(groups or columns))


def _ordered(source: Subquery, order: Order) -> ColumnElement[Any]:
    if order == "prompt_tokens":
        return func.sum(source.c.prompt_uncached_tokens + source.c.prompt_cached_tokens)
    return func.sum(source.c[order])


def _row(row: Any, width: int) -> UsageRow:
    return UsageRow(row[0], tuple(row[1 : 1 + width]), UsageSums(*row[1 + width :]))


def _unix(column: ColumnElement[datetime]) -> ColumnElement[int]:
    return cast(func.floor(extract("epoch", column)), BigInteger).label("at")


def _at(unix: int) -> datetime:
    return datetime.fromtimestamp(unix, UTC)
