"""What a format is to the builder: which rows it is made of, how they are written, what they add up to.

Each format is a file of its own in this package; the table of them is `registry.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gateway.db import WriteConnection
from gateway.exports.repository.events import EVENT_SUMS, event_rows
from gateway.exports.types import ExportRow, ExportSpec, Position, Tally

__all__ = ["EventFormat", "Format", "Writer", "add_events"]


class Writer(Protocol):
    """One file. The bytes depend on the rows alone, not on how they were handed over."""

    rows: int
    """How many rows of the file's own are written."""

    def write(self, rows: Sequence[ExportRow]) -> None: ...

    def close(self) -> None: ...


class WriterMaker(Protocol):
    def __call__(self, path: Path) -> Writer: ...


class Format(Protocol):
    @property
    def suffix(self) -> str: ...

    @property
    def sums(self) -> tuple[str, ...]:
        """The fields of the ledger's tally that this format's rows must add up to."""
        ...

    @property
    def has_parts(self) -> bool:
        """Its rows are events in order, so that it can be cut into parts and taken up again after any of them."""
        ...

    def rows(
        self, connection: WriteConnection, spec: ExportSpec, after: Position | None
    ) -> AsyncIterator[Sequence[ExportRow]]: ...

    def open(self, path: Path, spec: ExportSpec) -> Writer: ...

    def add(self, tally: Tally, rows: Sequence[ExportRow]) -> None:
        """Adds what these rows hold."""
        ...

    def notes(self, tally: Tally) -> Mapping[str, Any]:
        """What the manifest says beside the ledger's sums."""
        ...


@dataclass(frozen=True, slots=True)
class EventFormat:
    """The part that the formats of single events have in common."""

    suffix: str
    writer: WriterMaker
    sums: tuple[str, ...] = ("events", *EVENT_SUMS)
    has_parts: bool = True

    def rows(
        self, connection: WriteConnection, spec: ExportSpec, after: Position | None
    ) -> AsyncIterator[Sequence[ExportRow]]:
        return event_rows(connection, spec, after)

    def open(self, path: Path, spec: ExportSpec) -> Writer:
        return self.writer(path)

    def add(self, tally: Tally, rows: Sequence[ExportRow]) -> None:
        add_events(tally, rows)

    def notes(self, tally: Tally) -> Mapping[str, Any]:
        return {}


def add_events(tally: Tally, rows: Sequence[ExportRow]) -> None:
    for row in rows:
        sums = tally.setdefault(row["tenant_id"], dict.fromkeys(("events", *EVENT_SUMS), 0))
        sums["events"] += 1
        for name in EVENT_SUMS:
            sums[name] += row[name]
