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
]

FormatName = Literal["csv", "jsonl", "parquet", "focus", "stripe"]
FORMATS: tuple[FormatName, ...] = get_args(FormatName)

CLOSING_LAG = timedelta(hours=2)
"""An event that is recorded this long after it occurred is late: it belongs to the period in which it was recorded."""
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

    @property
    def closes_at(self) -> datetime:
        """From here on no event can be added to the period."""
        return self.ends_at + CLOSING_LAG + COMMIT_MARGIN


@dataclass(frozen=True, slots=True)
class ExportSpec:
    """One export: the same spec always gives the same bytes. No tenant: all of them."""

    format: FormatName
    period: Period
    tenant_id: str | None = None

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
