"""Whether a period is closed: no event can come that belongs to it. The clock is the database's, which stamps events."""

from __future__ import annotations

from datetime import date
from typing import Any, Protocol

from sqlalchemy import TextClause, text

from gateway.exports.types import CLOSING_LAG, COMMIT_MARGIN, ExportSpec
from gateway.ledger.closing import CLOSE_AFTER

__all__ = ["is_closed", "recent_days"]

_IS_OVER = "now() > CAST(:end AS timestamptz) + CAST(:wait AS interval)"
# The last month that the period touches begins here; what lies before it is closed with its month. A month before the
# first event has no billing period: it is closed once it would be.
_MONTH = "date_trunc('month', CAST(:end AS timestamptz), 'UTC')"
_CLOSED = {
    "prompt": text(f"SELECT {_IS_OVER}"),
    "monthly": text(
        f"""
        SELECT ({_MONTH} = CAST(:end AS timestamptz) OR {_IS_OVER}) AND (
            {_MONTH} <= CAST(:start AS timestamptz)
            OR EXISTS (SELECT FROM billing_period WHERE ends_at >= {_MONTH})
            OR now() > {_MONTH} + CAST(:close_after AS interval)
                AND NOT EXISTS (SELECT FROM usage_event WHERE occurred_at < {_MONTH}))
        """
    ),
}
_RECENT = text(
    """
    SELECT greatest(today - CAST(:days AS integer), coalesce(began, today)), today - 1
    FROM (SELECT (now() AT TIME ZONE 'UTC')::date AS today,
        (SELECT (min(occurred_at) AT TIME ZONE 'UTC')::date FROM usage_event) AS began) t
    """
)


class _Executor(Protocol):
    """A connection or a session."""

    async def execute(self, statement: TextClause, parameters: dict[str, Any]) -> Any: ...


async def is_closed(executor: _Executor, spec: ExportSpec) -> bool:
    values: dict[str, Any] = {"end": spec.period.ends_at, "wait": CLOSING_LAG + COMMIT_MARGIN}
    if spec.booking == "monthly":
        values |= {"start": spec.period.starts_at, "close_after": CLOSE_AFTER}
    return bool((await executor.execute(_CLOSED[spec.booking], values)).scalar_one())


async def recent_days(executor: _Executor, days: int) -> tuple[date, date]:
    """The first and the last of at most so many days before today, none of them before the first event; the first is
    after the last when there are none."""
    first, last = (await executor.execute(_RECENT, {"days": days})).one()
    return first, last
