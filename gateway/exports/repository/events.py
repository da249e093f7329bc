"""What a period holds: its events in order, hourly sums of them, and the ledger's own totals.

An event belongs to the period of `greatest(occurred_at, recorded_at - CLOSING_LAG)`: to when it occurred, or, if it
was recorded late, to when it was recorded. Every event is in exactly one period of any division of time, and a closed
period never changes. Late events come first, since they occurred before the period began.

Rows come through a server-side cursor: memory does not grow with them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, cast
from uuid import UUID

from sqlalchemy import TextClause, text

from gateway.db import WriteConnection
from gateway.exports.types import (
    CLOSING_LAG,
    COMMIT_MARGIN,
    ExportRow,
    ExportSpec,
    PeriodOpen,
    Position,
    Tally,
)
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
_BOOKED_AT = f"greatest(e.occurred_at, e.recorded_at - {_LAG})"
_TENANT = "(CAST(:tenant_id AS text) IS NULL OR e.tenant_id = CAST(:tenant_id AS text))"
_START, _END = "CAST(:start AS timestamptz)", "CAST(:end AS timestamptz)"
_IN_TIME = (
    f"e.occurred_at >= {_START} AND e.occurred_at < {_END} AND e.recorded_at < {_END} + {_LAG} AND {_TENANT}"
)
_LATE = (
    f"e.occurred_at < {_START} AND e.recorded_at >= {_START} + {_LAG} AND e.recorded_at < {_END} + {_LAG}"
    f" AND {_TENANT}"
)
# Two branches rather than OR: each has its own index.
_BOTH = (
    f"(SELECT e.* FROM usage_event e WHERE {_LATE} UNION ALL SELECT e.* FROM usage_event e WHERE {_IN_TIME})"
)

_COLUMNS = ", ".join(f"e.{column.name}" for column in UsageEvent.__table__.columns)
_AFTER = "(e.occurred_at, e.event_id) > (CAST(:after_at AS timestamptz), CAST(:after_id AS uuid))"
_ORDER = "ORDER BY e.occurred_at, e.event_id"


def _events(branch: str, after: str) -> TextClause:
    return text(f"SELECT {_COLUMNS} FROM usage_event e WHERE {branch}{after} {_ORDER}")


_EVENTS = tuple(_events(branch, "") for branch in (_LATE, _IN_TIME))
_EVENTS_AFTER = tuple(_events(branch, f" AND {_AFTER}") for branch in (_LATE, _IN_TIME))

# When the event that this one corrects was booked; nothing any more once its partition has been dropped.
_CORRECTED_AT = (
    f"(SELECT greatest(o.occurred_at, o.recorded_at - {_LAG}) FROM usage_event o"
    " WHERE o.request_id = e.request_id AND o.event_id = e.corrects)"
)
_FOCUS = text(
    f"""
    WITH booked AS MATERIALIZED (
        SELECT e.*, date_trunc('month', {_BOOKED_AT}, 'UTC') AS billing_month,
            CASE WHEN e.corrects IS NULL THEN e.occurred_at ELSE {_CORRECTED_AT} END AS charged_at
        FROM {_BOTH} e
    )
    SELECT date_trunc('hour', e.occurred_at, 'UTC') AS hour, e.tenant_id, e.key_id, e.served_model, e.pool_id,
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
    SELECT date_trunc('hour', {_BOOKED_AT}, 'UTC') AS hour, e.tenant_id, s.customer_id,
        CAST(sum(e.amount_nanousd) AS bigint) AS amount_nanousd, count(*) AS events
    FROM {_BOTH} e LEFT JOIN stripe_customer s ON s.tenant_id = e.tenant_id
    GROUP BY 1, 2, 3
    ORDER BY 1, e.tenant_id COLLATE "C"
    """
)
_TALLY = text(
    f"""
    SELECT e.tenant_id, count(*) AS events,
        {", ".join(f"CAST(sum(e.{name}) AS bigint) AS {name}" for name in EVENT_SUMS)}
    FROM {_BOTH} e GROUP BY 1 ORDER BY e.tenant_id COLLATE "C"
    """
)
_CLOSED = text("SELECT now() > CAST(:ends_at AS timestamptz) + CAST(:wait AS interval)")


async def closed_snapshot(connection: WriteConnection, spec: ExportSpec) -> None:
    """Makes the transaction a reader of one snapshot, with time for long queries. Raises PeriodOpen if events of the
    period may still be recorded; the clock is the database's, which stamps them."""
    await connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
    await connection.execute(text("SET LOCAL statement_timeout = '10min'"))
    await connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = '10min'"))
    period = spec.period
    wait = {"ends_at": period.ends_at, "wait": CLOSING_LAG + COMMIT_MARGIN}
    if not (await connection.execute(_CLOSED, wait)).scalar_one():
        raise PeriodOpen(
            f"the period to {period.end.isoformat()} is not closed before {period.closes_at.isoformat()}"
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
    """Sums per tenant and booked hour, which do not depend on the period that is exported."""
    return _stream(connection, _STRIPE, _values(spec))


async def ledger_tally(connection: WriteConnection, spec: ExportSpec) -> Tally:
    """What the ledger itself says that the period holds, per tenant."""
    result = await connection.execute(_TALLY, _values(spec))
    return {
        row["tenant_id"]: {name: row[name] for name in ("events", *EVENT_SUMS)} for row in result.mappings()
    }


def _values(spec: ExportSpec) -> dict[str, Any]:
    return {"start": spec.period.starts_at, "end": spec.period.ends_at, "tenant_id": spec.tenant_id}


async def _stream(
    connection: WriteConnection, query: TextClause, values: dict[str, Any]
) -> AsyncIterator[Sequence[ExportRow]]:
    async with connection.stream(query, values, execution_options={"yield_per": FETCH_ROWS}) as result:
        async for rows in result.mappings().partitions():
            yield cast("Sequence[ExportRow]", rows)
