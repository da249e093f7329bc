"""JSON lines: one object per usage event, UTF-8, keys in the order of the columns.

Integers are written in full; a reader that turns JSON numbers into doubles loses amounts above 2^53 nano-USD, which is
nine million dollars in one event.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import orjson

from gateway.exports.columns import COLUMNS, instant
from gateway.exports.formats import EventFormat
from gateway.exports.types import ExportRow

__all__ = ["JSONL", "line"]


class _JsonlWriter:
    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self.rows = 0

    def write(self, rows: Sequence[ExportRow]) -> None:
        self._file.write(b"".join(map(line, rows)))
        self.rows += len(rows)

    def close(self) -> None:
        self._file.close()


def line(row: ExportRow) -> bytes:
    fields = {}
    for column in COLUMNS:
        value = column.value(row)
        is_instant = column.kind == "instant" and value is not None
        fields[column.name] = instant(value) if is_instant else value
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


JSONL = EventFormat("jsonl", _JsonlWriter)
