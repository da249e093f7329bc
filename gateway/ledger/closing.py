"""Closing billing periods: months in UTC, once nothing of them is on its way and their rollups are proved.

A month that is closed never changes; what comes later is booked as an adjustment in the open month. It does not know
who bills by periods.
"""

from datetime import UTC, datetime, timedelta

from gateway.db import Database
from gateway.ledger.periods import period_bounds, period_key
from gateway.ledger.repository.closing import close_period, first_open_at
from gateway.ledger.repository.rollups import Drift, rollup_drift
from gateway.obs.logging import get_logger

__all__ = ["CLOSE_AFTER", "OPEN_FOR_SURE", "PeriodCloser"]

CLOSE_AFTER = timedelta(hours=72)
"""How long after its end a month stays open for what is late: journals, spools, replicas that come back."""
OPEN_FOR_SURE = timedelta(hours=24)
"""Whatever happened within this time belongs to an open period: nobody needs to look. Clocks differ by far less than
the two times do."""


class PeriodCloser:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._log = get_logger(__name__)

    async def close_due(self, now: datetime) -> list[str]:
        """Close the months that are due, oldest first, and return their keys. One that is held up holds up the next."""
        closed: list[str] = []
        while True:
            async with self._database.transaction() as connection:
                at = await first_open_at(connection)
            if at is None:
                return closed
            key, (starts_at, ends_at) = period_key("monthly", UTC, at), period_bounds("monthly", UTC, at)
            if now < ends_at + CLOSE_AFTER or not await self._close(key, starts_at, ends_at):
                return closed
            closed.append(key)

    async def _close(self, key: str, starts_at: datetime, ends_at: datetime) -> bool:
        drift = await recompute(self._database, starts_at, ends_at)
        if drift:
            self._log.error("period_not_closed_rollups_differ", period=key, nanousd=drift.nanousd)
            return False
        async with self._database.transaction() as connection:
            is_closed = await close_period(connection, key, starts_at, ends_at, CLOSE_AFTER.total_seconds())
        if is_closed:
            self._log.info("period_closed", period=key)
        return is_closed


async def recompute(database: Database, first: datetime, end: datetime) -> Drift:
    """How far the rollups of whole days are from the events. A day at a time: each is a short statement."""
    drift, day = Drift(), first.date()
    while day < end.date():
        async with database.transaction() as connection:
            drift += await rollup_drift(connection, day, day + timedelta(days=1))
        day += timedelta(days=1)
    return drift
