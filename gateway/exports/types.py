"""What crosses the borders of the exports: what is asked for, what was written, and how it can fail. All frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Literal, get_args

__all__ = [
    "CLOSING_LAG",
    "COMMIT_MARGIN",
    "FORMATS",
    "Booking",
    "Checkpoint",
    "ExportBusy",
    "ExportConflict",
    "ExportError",
    "ExportMismatch",
    "ExportRow",
    "ExportSpec",
    "FormatName",
    "PartFile",
    "Period",
    "PeriodOpen",
    "Position",
    "Tally",
    "UnknownExport",
    "spec_from",
]

FormatName = Literal["csv", "jsonl", "parquet", "focus", "stripe"]
FORMATS: tuple[FormatName, ...] = get_args(FormatName)

Booking = Literal["monthly", "prompt"]
"""Which day an event belongs to. Either way it is exactly one, and a closed day never changes.

Both: the day on which it occurred, or, if it was recorded more than `CLOSING_LAG` after it occurred, the day of its
recording less that lag. `monthly`: but never a later month than that in which it occurred, as the ledger's own billing
periods have it; the last day of a month is therefore closed only with its month. `prompt`: whatever the month, so that
a day is closed two hours after its end; for invoices that nobody can change afterwards.
"""

CLOSING_LAG = timedelta(hours=2)
COMMIT_MARGIN = timedelta(minutes=5)
"""`recorded_at` is the start of a transaction; none is open for as long as this."""

ExportRow = Mapping[str, Any]
"""One row of a source, by column."""
Tally = dict[str, dict[str, int]]
"""Sums per tenant and field. Integers only: counts, tokens and nano-USD."""


class ExportError(Exception):
    """An export could not be made. The message is for the operator."""

    is_final = False
    """Trying again cannot help."""


class UnknownExport(ExportError):
    """What is asked for does not exist: a format, a day, a period that ends before it begins."""

    is_final = True


class PeriodOpen(ExportError):
    """Events of the period may still come."""

    is_final = True


class ExportConflict(ExportError):
    """The destination holds other bytes under the same name."""

    is_final = True


class ExportMismatch(ExportError):
    """What was written does not add up to the ledger."""


class ExportBusy(ExportError):
    """Another process is writing the same export."""


@dataclass(frozen=True, slots=True)
class Period:
    """Whole days, UTC, half-open: [start, end)."""

    start: date
    end: date

    def __post_init__(self) -> None:
        assert self.start < self.end, "a period has a first and a last day"

    @property
    def starts_at(self) -> datetime:
        return datetime.combine(self.start, time.min, tzinfo=UTC)

    @property
    def ends_at(self) -> datetime:
        return datetime.combine(self.end, time.min, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ExportSpec:
    """One export: the same spec always gives the same bytes. No tenant: all of them."""

    format: FormatName
    period: Period
    tenant_id: str | None = None

    @property
    def booking(self) -> Booking:
        return "prompt" if self.format == "stripe" else "monthly"

    @property
    def prefix(self) -> str:
        """Where it stands in its destination."""
        span = f"{self.period.start.isoformat()}_{self.period.end.isoformat()}"
        return f"{self.format}/{span}/{self.tenant_id or 'all'}"


@dataclass(frozen=True, slots=True)
class Position:
    """The last event that a finished part holds."""

    occurred_at: datetime
    event_id: str


@dataclass(frozen=True, slots=True)
class PartFile:
    """One finished file."""

    name: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far an unfinished export has come; enough to go on after a kill -9."""

    parts: tuple[PartFile, ...]
    position: Position
    tally: Tally


def spec_from(
    format: str, tenant_id: str | None, *, month: str | None, start: str | None, end: str | None
) -> ExportSpec:
    """From what people write: a month, or a first day and the day after the last. Raises UnknownExport."""
    if format not in FORMATS:
        raise UnknownExport(f"there is no format {format}: {', '.join(FORMATS)}")
    if (month is None) == (start is None) or (month is not None and end is not None):
        raise UnknownExport("give either a month or a first day")
    first = _day(f"{month}-01" if month is not None else str(start))
    if month is not None:
        after_last = (first + timedelta(days=31)).replace(day=1)
    else:
        after_last = _day(end) if end is not None else first + timedelta(days=1)
    if after_last <= first:
        raise UnknownExport(
            f"a period from {first} to {after_last} has no day: the end is the day after the last"
        )
    return ExportSpec(format, Period(first, after_last), tenant_id)


def _day(written: str) -> date:
    try:
        return date.fromisoformat(written)
    except ValueError:
        raise UnknownExport(f"{written} is no day: write 2026-11-28") from None
