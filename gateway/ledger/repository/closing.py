"""Closed billing periods: when one may be closed, and how a settlement learns that its own is.

Closing a period and adding an old event exclude one another by an advisory lock: an event that was booked in a
period while it was open is counted when the period closes, and a later one is booked in the open period.
"""

from datetime import datetime

from sqlalchemy import text

from gateway.db import WriteConnection

__all__ = ["close_period", "closed_before", "first_open_at"]

_LOCK_KEY = 7_466_011_208_423_518

_CLOSED_BEFORE = text("SELECT max(ends_at) FROM billing_period")
_FIRST_OPEN = text(
    """
    SELECT coalesce((SELECT max(ends_at) FROM billing_period), (SELECT min(occurred_at) FROM usage_event))
    """
)
# Nothing of the period is still on its way: no hold, no event outside the rollups.
_CLOSE = text(
    """
    INSERT INTO billing_period (period_key, starts_at, ends_at, requests, tokens, amount_nanousd)
    SELECT :period_key, CAST(:starts_at AS timestamptz), CAST(:ends_at AS timestamptz), coalesce(sum(requests), 0),
        coalesce(sum(prompt_uncached_tokens + prompt_cached_tokens + completion_tokens), 0),
        coalesce(sum(amount_nanousd), 0)
    FROM rollup_day WHERE bucket >= CAST(:starts_at AS timestamptz) AND bucket < CAST(:ends_at AS timestamptz)
    HAVING now() >= CAST(:ends_at AS timestamptz) + make_interval(secs => :wait_s)
        AND NOT EXISTS (SELECT FROM hold WHERE reserved_at < CAST(:ends_at AS timestamptz))
        AND NOT EXISTS (
            SELECT FROM outbox WHERE topic = 'usage'
                AND CAST(payload ->> 'occurred_at' AS timestamptz) < CAST(:ends_at AS timestamptz))
    ON CONFLICT (period_key) DO NOTHING
    """
)


async def closed_before(connection: WriteConnection) -> datetime | None:
    """Events before this belong to closed periods. No period closes until the transaction ends."""
    await connection.execute(text("SELECT pg_advisory_xact_lock_shared(:key)"), {"key": _LOCK_KEY})
    closed: datetime | None = (await connection.execute(_CLOSED_BEFORE)).scalar_one()
    return closed


async def first_open_at(connection: WriteConnection) -> datetime | None:
    """An instant in the first period that is open, or None before the first event."""
    found: datetime | None = (await connection.execute(_FIRST_OPEN)).scalar_one()
    return found


async def close_period(
    connection: WriteConnection, period_key: str, starts_at: datetime, ends_at: datetime, wait_s: float
) -> bool:
    """Close it, if it ended `wait_s` ago by the database's clock and nothing of it is on its way."""
    await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
    bounds = {"period_key": period_key, "starts_at": starts_at, "ends_at": ends_at, "wait_s": wait_s}
    return (await connection.execute(_CLOSE, bounds)).rowcount == 1
