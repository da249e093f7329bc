"""Which period an instant belongs to. Periods are computed from the clock and the budget's zone, never swept.

A period is half-open, [start, end), and begins at local midnight: of the day, of Monday, or of the first of the
month. Its key is part of the budget row's key, so a new period is a new row and nothing has to be reset.
"""

from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Literal
from zoneinfo import ZoneInfo

__all__ = ["PREPAID_KEY", "Period", "period_bounds", "period_key", "zone_of"]

Period = Literal["daily", "weekly", "monthly", "prepaid"]

PREPAID_KEY = "prepaid"


def period_key(period: Period, zone: tzinfo, at: datetime) -> str:
    """`2026-11-29`, `2026-W48`, `2026-11` or `prepaid`; sorts by time within one kind."""
    day = at.astimezone(zone).date()
    match period:
        case "daily":
            return day.isoformat()
        case "weekly":
            year, week, _ = day.isocalendar()
            return f"{year:04d}-W{week:02d}"
        case "monthly":
            return f"{day.year:04d}-{day.month:02d}"
        case "prepaid":
            return PREPAID_KEY


def period_bounds(period: Period, zone: tzinfo, at: datetime) -> tuple[datetime, datetime]:
    """The period of `at` as [start, end) in UTC. A prepaid budget has no bounds."""
    day = at.astimezone(zone).date()
    match period:
        case "daily":
            first, following = day, day + timedelta(days=1)
        case "weekly":
            first = day - timedelta(days=day.weekday())
            following = first + timedelta(days=7)
        case "monthly":
            first = day.replace(day=1)
            following = (first + timedelta(days=31)).replace(day=1)
        case "prepaid":
            raise ValueError("a prepaid budget has one period without bounds")
    return _midnight(first, zone), _midnight(following, zone)


def zone_of(name: str) -> tzinfo:
    """The zone by its IANA name; UTC needs no zone database."""
    return UTC if name == "UTC" else ZoneInfo(name)


def _midnight(day: date, zone: tzinfo) -> datetime:
    # Where a clock skips midnight, the pre-transition offset makes this the instant of the transition itself.
    return datetime.combine(day, time.min, tzinfo=zone).astimezone(UTC)
