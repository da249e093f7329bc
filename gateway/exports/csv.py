"""CSV: RFC 4180 with a header line, UTF-8, CRLF, one row per usage event.

A spreadsheet takes a text that begins with = + - or @ for a formula. Such a text is written with an apostrophe before
it, and so is one that begins with a tab, a carriage return or an apostrophe, and the empty text; taking one leading
apostrophe off a text column gives exactly what was meant. An empty cell is null. Numbers are never changed.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gateway.exports.columns import COLUMNS, Column, instant
from gateway.exports.formats import EventFormat
from gateway.exports.types import ExportRow

__all__ = ["CSV", "cell", "text_of"]

_DANGEROUS = ("=", "+", "-", "@", "\t", "\r", "'")


class _CsvWriter:
    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8", newline="")
        self._csv = csv.writer(self._file)
        self._csv.writerow([column.name for column in COLUMNS])
        self.rows = 0

    def write(self, rows: Sequence[ExportRow]) -> None:
        for row in rows:
            self._csv.writerow([cell(column, column.value(row)) for column in COLUMNS])
        self.rows += len(rows)

    def close(self) -> None:
        self._file.close()


def cell(column: Column, value: Any) -> str:
    """How a value stands in its column."""
    if value is None:
        return ""
    if column.kind == "text":
        return f"'{value}" if not value or value.startswith(_DANGEROUS) else str(value)
    if column.kind == "instant":
        return instant(value)
    return ("true" if value else "false") if column.kind == "boolean" else str(value)


def text_of(written: str) -> str | None:
    """The opposite of `cell` for a text column."""
    return written.removeprefix("'") if written else None


CSV = EventFormat("csv", _CsvWriter)
