"""The list of requests, newest first, and everything that is known of one.

A page reads a bounded number of events whatever is filtered for. What has an index is read in the index's order, the
other filters are applied to what comes out of it, a slice at a time; when a slice was too poor, the rollups tell at
which hour to go on. A page may therefore hold less than was asked for and still have a next one. The rollups are a
second behind, so an event that arrives late is found by a rare filter only after that second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import ColumnElement, func, select, tuple_
from sqlalchemy.orm import aliased

from gateway.db import ReadSession
from gateway.ledger.models import RollupDay, RollupHour, UsageEvent

__all__ = ["EventCursor", "RequestFilter", "RequestPage", "RequestReader"]

SLICE = 5_000
"""Events that are looked at before the rollups are asked where to look next."""
SLICES_MAX = 5
_FIRST = UUID(int=0)
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)


class EventCursor(NamedTuple):
    """Everything before it in the order (occurred_at, event_id) is still to come."""

    occurred_at: datetime
    event_id: UUID


@dataclass(frozen=True, slots=True)
class RequestFilter:
    """Every field narrows; None does not. `with_corrections`: also the events that are no requests."""

    tenant_id: str | None = None
    key_id: str | None = None
    user_ref: str | None = None
    request_id: str | None = None
    served_model: str | None = None
    pool_id: str | None = None
    request_class: str | None = None
    statuses: Sequence[str] | None = None
    is_stream: bool | None = None
    start: datetime | None = None
    end: datetime | None = None
    with_corrections: bool = False


@dataclass(frozen=True, slots=True)
class RequestPage:
    """`next` is None at the end of the list. `corrections_nanousd`: by request id, where there are any."""

    events: list[UsageEvent] = field(default_factory=list)
    next: EventCursor | None = None
    corrections_nanousd: dict[str, int] = field(default_factory=dict)


class RequestReader:
    async def page(
        self, session: ReadSession, wanted: RequestFilter, before: EventCursor | None, limit: int
    ) -> RequestPage:
        events: list[UsageEvent] = []
        for _ in range(SLICES_MAX):
            events += await self._slice(session, wanted, before, limit + 1 - len(events))
            if len(events) > limit:
                last = events[limit - 1]
                return await self._whole(session, wanted, events[:limit], _cursor(last))
            before = await self._edge(session, wanted, before)
            if before is not None:
                before = await self._jump(session, wanted, before)
            if before is None:
                break
        return await self._whole(session, wanted, events, before)

    async def _slice(
        self, session: ReadSession, wanted: RequestFilter, before: EventCursor | None, limit: int
    ) -> Sequence[UsageEvent]:
        looked_at = select(UsageEvent).where(*_path(wanted, before)).order_by(*_NEWEST_FIRST).limit(SLICE)
        event = aliased(UsageEvent, looked_at.subquery("looked_at"))
        query = select(event).where(*_filters(event, wanted))
        order = (event.occurred_at.desc(), event.event_id.desc())
        return (await session.scalars(query.order_by(*order).limit(limit))).all()

    async def _edge(
        self, session: ReadSession, wanted: RequestFilter, before: EventCursor | None
    ) -> EventCursor | None:
        """The last event that the slice looked at; None if there was nothing beyond it."""
        query = select(UsageEvent.occurred_at, UsageEvent.event_id).where(*_path(wanted, before))
        row = (await session.execute(query.order_by(*_NEWEST_FIRST).offset(SLICE - 1).limit(1))).one_or_none()
        return EventCursor(*row) if row is not None else None

    async def _jump(
        self, session: ReadSession, wanted: RequestFilter, edge: EventCursor
    ) -> EventCursor | None:
        """The end of the newest hour, up to the edge, that the rollups have something of; None if there is none."""
        if wanted.user_ref is not None or wanted.request_id is not None:
            return edge
        day = edge.occurred_at.replace(hour=0, minute=0, second=0, microsecond=0)
        hour = await self._newest(session, RollupHour, wanted, day, edge.occurred_at)
        if hour is None:
            found = await self._newest(session, RollupDay, wanted, wanted.start, day - _HOUR)
            if found is None:
                return None
            hour = await self._newest(session, RollupHour, wanted, found, found + _DAY - _HOUR) or (
                found + _DAY - _HOUR  # pruned before its day
            )
        return min(edge, EventCursor(hour + _HOUR, _FIRST))

    async def _newest(
        self,
        session: ReadSession,
        rollup: type[RollupDay | RollupHour],
        wanted: RequestFilter,
        first: datetime | None,
        last: datetime,
    ) -> datetime | None:
        query = select(rollup.bucket).where(rollup.bucket <= last, *_dimensions(rollup, wanted))
        if first is not None:
            query = query.where(rollup.bucket >= func.date_trunc("day", first, "UTC"))
        return await session.scalar(query.order_by(rollup.bucket.desc()).limit(1))

    async def _whole(
        self,
        session: ReadSession,
        wanted: RequestFilter,
        events: list[UsageEvent],
        following: EventCursor | None,
    ) -> RequestPage:
        if wanted.with_corrections or not events:
            return RequestPage(events, following)
        query = (
            select(UsageEvent.request_id, func.sum(UsageEvent.amount_nanousd))
            .where(
                UsageEvent.request_id.in_([event.request_id for event in events]),
                UsageEvent.occurred_at >= events[-1].occurred_at,
                UsageEvent.corrects.is_not(None),
            )
            .group_by(UsageEvent.request_id)
        )
        corrections = {request_id: int(amount) for request_id, amount in await session.execute(query)}
        return RequestPage(events, following, corrections)


_NEWEST_FIRST = (UsageEvent.occurred_at.desc(), UsageEvent.event_id.desc())


def _cursor(event: UsageEvent) -> EventCursor:
    return EventCursor(event.occurred_at, event.event_id)


def _path(wanted: RequestFilter, before: EventCursor | None) -> list[ColumnElement[bool]]:
    """What one index gives in the list's order, and nothing that it would have to be searched through for."""
    found: list[ColumnElement[bool]] = []
    if wanted.request_id is not None:
        found.append(UsageEvent.request_id == wanted.request_id)
    elif wanted.user_ref is not None:
        found.append(UsageEvent.user_ref == wanted.user_ref)
    elif wanted.key_id is not None:
        found.append(UsageEvent.key_id == wanted.key_id)
    else:
        if wanted.tenant_id is not None:
            found.append(UsageEvent.tenant_id == wanted.tenant_id)
        if wanted.statuses is not None and "ok" not in wanted.statuses:
            found.append(UsageEvent.status != "ok")
    if wanted.start is not None:
        found.append(UsageEvent.occurred_at >= wanted.start)
    if wanted.end is not None:
        found.append(UsageEvent.occurred_at < wanted.end)
    if before is not None:
        found.append(tuple_(UsageEvent.occurred_at, UsageEvent.event_id) < tuple(before))
    return found


def _filters(event: Any, wanted: RequestFilter) -> list[ColumnElement[bool]]:
    found = _dimensions(event, wanted)
    for column, value in (
        (event.user_ref, wanted.user_ref),
        (event.request_id, wanted.request_id),
        (event.is_stream, wanted.is_stream),
    ):
        if value is not None:
            found.append(column == value)
    if not wanted.with_corrections:
        found += [event.corrects.is_(None), event.kind == "request"]
    return found


def _dimensions(row: Any, wanted: RequestFilter) -> list[ColumnElement[bool]]:
    """Those that events and rollups both have."""
    pairs = (
        (row.tenant_id, wanted.tenant_id),
        (row.key_id, wanted.key_id),
        (row.served_model, wanted.served_model),
        (row.pool_id, wanted.pool_id),
        (row.request_class, wanted.request_class),
    )
    found = [column == value for column, value in pairs if value is not None]
    if wanted.statuses is not None:
        found.append(row.status.in_(wanted.statuses))
    return found
