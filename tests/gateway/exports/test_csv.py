"""CSV: whatever the ledger holds comes back, and no cell is a formula."""

from __future__ import annotations

import csv
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import example, given, settings

from gateway.exports.columns import COLUMNS, Column, instant
from gateway.exports.csv import CSV, cell, text_of
from tests.gateway.exports.ledger import spec
from tests.gateway.exports.rows import ROWS, TEXT

_TEXT = Column("any", "any", "text", is_nullable=True)


@settings(max_examples=100, deadline=None)
@given(ROWS)
def test_rows_come_back(rows: list[dict[str, Any]]) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "part.csv"
        writer = CSV.open(path, spec())
        writer.write(rows)
        writer.close()
        with path.open(newline="", encoding="utf-8") as file:
            header, *found = csv.reader(file)
    assert header == [column.name for column in COLUMNS]
    assert len(found) == writer.rows == len(rows)
    for written, row in zip(found, rows, strict=True):
        for column, text in zip(COLUMNS, written, strict=True):
            assert _read(column, text) == _expected(column, row)


@given(TEXT)
@example("")
@example("'=1")
def test_no_text_is_a_formula_and_none_is_lost(text: str) -> None:
    """Spreadsheets look at the first character."""
    written = cell(_TEXT, text)
    assert not written.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert written != ""
    assert text_of(written) == text


def test_numbers_and_nulls_are_as_they_are() -> None:
    assert cell(Column("n", "n", "integer"), -5) == "-5"
    assert cell(_TEXT, None) == ""
    assert text_of("") is None


def _read(column: Column, text: str) -> Any:
    if text == "":
        return None
    match column.kind:
        case "text":
            return text_of(text)
        case "integer":
            return int(text)
        case "boolean":
            return {"true": True, "false": False}[text]
        case "instant":
            return text


def _expected(column: Column, row: dict[str, Any]) -> Any:
    value = row[column.source]
    if value is None:
        return None
    if column.kind == "instant":
        return instant(value)
    return str(value) if column.kind == "text" else value
