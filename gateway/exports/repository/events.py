"""What a period holds: its events in order, hourly sums of them, and the ledger's own totals.

An event belongs to the day on which it is booked (`Booking` in types.py says which that is). Late events come first,
since they occurred before the period began. Rows come through a server-side cursor: memory does not grow with them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import TextClause, text

from gateway.db import WriteConnection
from gateway.exports.repository.closed import is_closed
from gateway.exports.types import CLOSING_LAG, Booking, ExportRow, ExportSpec, PeriodOpen, Position, Tally
from gateway.ledger.models import UsageEvent

__all__ = ["EVENT_SUMS", "closed_snapshot", "event_rows", "focus_rows", "ledger_tally", "stripe_rows"]

FETCH_ROWS = 5_000
EVENT_SUMS = (
    "prompt_uncached_tokens",
    "prompt_cached_tokens",
    "completion_tokens",
    "reasoning_tokens",
    "input_nanousd",
    "cached_input_nanousd",
    "output_nanousd",
    "adjustment_nanousd",
    "amount_nanousd",
    "over_hold_nanousd",
)

_LAG = f"interval '{int(CLOSING_LAG.total_seconds())} seconds'"
_START, _END = "CAST(:start AS timestamptz)", "CAST(:end AS timestamptz)"
_TENANT = "(CAST(:tenant_id AS text) IS NULL OR e.tenant_id = CAST(:tenant_id AS text))"
_COLUMNS = ", ".join(f"e.{column.name}" for column in UsageEvent.__table__.columns)
_AFTER = "(e.occurred_at, e.event_id) > (CAST(:after_at AS timestamptz), CAST(:after_id AS uuid))"
_MONTH_END = "date_trunc('month', e.occurred_at, 'UTC') + interval '1 month' - interval '1 microsecond'"
_BOOKED_AT: Mapping[Booking, str] = {
    "prompt": f"greatest(e.occurred_at, e.recorded_at - {_LAG})",
    "monthly": f"greatest(e.occurred_at, least(e.recorded_at - {_LAG}, {_MONTH_END}))",
}
# Where late events can be: what is booked monthly does not leave its month.
_LATE_SINCE: Mapping[Booking, str] = {
    "prompt": "",
    "monthly": f"e.occurred_at >= date_trunc('month', {_START}, 'UTC') AND ",
}


def _branches(booking: Booking) -> tuple[str, str]:
    """Late, and in time. Two branches rather than OR: each has its own index."""
    booked_at = _BOOKED_AT[booking]
    late = (
        f"{_LATE_SINCE[booking]}e.occurred_at < {_START} AND e.recorded_at >= {_START} + {_LAG}"
        f" AND {booked_at} >= {_START} AND {booked_at} < {_END} AND {_TENANT}"
    )
    in_time = f"e.occurred_at >= {_START} AND e.occurred_at < {_END} AND {booked_at} < {_END} AND {_TENANT}"
    return late, in_time


def _both(booking: Booking) -> str:
    late, in_time = _branches(booking)
    return f"(SELECT e.* FROM usage_event e WHERE {late} UNION ALL SELECT e.* FROM usage_event e WHERE {in_time})"


def _in_order(after: str) -> tuple[TextClause, ...]:
    return tuple(
        text(f"SELECT {_COLUMNS} FROM usage_event e WHERE {branch}{after} ORDER BY e.occurred_at, e.event_id")
        for branch in _branches("monthly")
    )


_EVENTS, _EVENTS_AFTER = _in_order(""), _in_order(f" AND {_AFTER}")

# The month of the event that this one corrects; nothing any more once its partition has been dropped.
_CORRECTED_AT = (
    "(SELECT o.occurred_at FROM usage_event o WHERE o.request_id = e.request_id AND o.event_id = e.corrects)"
)
_FOCUS = text(
    f"""
    WITH booked AS MATERIALIZED (
        SELECT e.*, coalesce(e.late_from, e.occurred_at) AS happened_at,
            date_trunc('month', e.occurred_at, 'UTC') AS billing_month,
            CASE WHEN e.corrects IS NULL THEN coalesce(e.late_from, e.occurred_at) ELSE {_CORRECTED_AT} END
                AS charged_at
        FROM {_both("monthly")} e
    )
    SELECT date_trunc('hour', e.happened_at, 'UTC') AS hour, e.tenant_id, e.key_id, e.served_model, e.pool_id,
        e.request_class, c.component, c.price_id, e.kind, e.corrects IS NOT NULL AS is_correction, e.billing_month,
        coalesce(e.charged_at < e.billing_month, true) AS is_of_earlier_month, p.sku,
        p.component AS price_component, p.nanousd_per_token,
        CAST(sum(c.tokens) AS bigint) AS tokens, CAST(sum(c.nanousd) AS bigint) AS nanousd
    FROM booked e
    CROSS JOIN LATERAL (VALUES
        ('input', e.prompt_uncached_tokens, e.input_nanousd, e.price_input_id),
        ('cached_input', e.prompt_cached_tokens, e.cached_input_nanousd, e.price_cached_input_id),
        ('output', e.completion_tokens, e.output_nanousd, e.price_output_id),
        ('adjustment', 0, e.adjustment_nanousd, NULL)
    ) c (component, tokens, nanousd, price_id)
    LEFT JOIN price p ON p.id = c.price_id
    WHERE c.tokens <> 0 OR c.nanousd <> 0
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    ORDER BY 1, e.tenant_id COLLATE "C", e.key_id COLLATE "C", e.served_model COLLATE "C", e.pool_id COLLATE "C",
        e.request_class COLLATE "C", c.component COLLATE "C", 8, e.kind COLLATE "C", 10, 11, 12
    """
)
_STRIPE = text(
    f"""
    SELECT date_trunc('hour', {_BOOKED_AT["prompt"]}, 'UTC') AS hour, e.tenant_id, s.customer_id,
        CAST(sum(e.amount_nanousd) AS bigint) AS amount_nanousd, count(*) AS events
    FROM {_both("prompt")} e
    LEFT JOIN stripe_customer s ON s.tenant_id = e.tenant_id AND s.created_at < {_END} + {_LAG}
    GROUP BY 1, 2, 3
    ORDER BY 1, e.tenant_id COLLATE "C"
    """
)


def _tally(booking: Booking) -> TextClause:
    sums = ", ".join(f"CAST(sum(e.{name}) AS bigint) AS {name}" for name in EVENT_SUMS)
    return text(
        f"SELECT e.tenant_id, count(*) AS events, {sums} FROM {_both(booking)} e"
        ' GROUP BY 1 ORDER BY e.tenant_id COLLATE "C"'
    )


_TALLY: Mapping[Booking, TextClause] = {"prompt": _tally("prompt"), "monthly": _tally("monthly")}


async def closed_snapshot(connection: WriteConnection, spec: ExportSpec) -> None:
    """Makes the transaction a reader of one snapshot, with time for long queries. Raises PeriodOpen if events of the
    period may still be recorded."""
    await connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
    await connection.execute(text("SET LOCAL statement_timeout = '10min'"))
    await connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = '10min'"))
    if not await is_closed(connection, spec):
        raise PeriodOpen(
            f"the period to {spec.period.end.isoformat()} is not closed: a day is two hours after its end,"
            " the last one of a month when its month is"
        )


async def event_rows(
    connection: WriteConnection, spec: ExportSpec, after: Position | None
) -> AsyncIterator[Sequence[ExportRow]]:
    """The events after a position, ordered by (occurred_at, event_id)."""
    values = _values(spec)
    if after is not None:
        values |= {"after_at": after.occurred_at, "after_id": UUID(after.event_id)}
    for query in _EVENTS if after is None else _EVENTS_AFTER:
        async for rows in _stream(connection, query, values):
            yield rows


def focus_rows(connection: WriteConnection, spec: ExportSpec) -> AsyncIterator[Sequence[ExportRow]]:
    """Sums per hour of occurrence and what a FOCUS row tells apart, one row per component that was used."""
    return _stream(connection, _FOCUS, _values(spec))


def stripe_rows(connection: WriteConnection, spec: ExportSpec) -> AsyncIterator[Sequence[ExportRow]]:
    """Sums per tenant and booked hour, which do not depend on the period that is exported, with the customers that
    were known when it closed."""
    return _stream(connection, _STRIPE, _values(spec))


async def ledger_tally(connection: WriteConnection, spec: ExportSpec) -> Tally:
    """What the ledger itself says that the period holds, per tenant."""
    result = await connection.execute(_TALLY[spec.booking], _values(spec))
    return {
        row["tenant_id"]: {name: row[name] for name in ("events", *EVENT_SUMS)} for row in result.mappings()
    }


def _values(spec: ExportSpec) -> dict[str, Any]:
    return {"start": spec.period.starts_at, "end": spec.period.ends_at, "tenant_id": spec.tenant_id}


async def _stream(
    connection: WriteConnection, query: TextClause, values: dict[str, Any]
) -> AsyncIterator[Sequence[ExportRow]]:
    async with connection.stream(query, values, execution_options={"yield_per": FETCH_ROWS}) as result:
        names = tuple(result.keys())
        async for rows in result.partitions(FETCH_ROWS):
            yield [dict(zip(names, row, strict=True)) for row in rows]
