"""JSON lines: whatever the ledger holds comes back."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings

from gateway.exports.columns import COLUMNS, instant
from gateway.exports.jsonl import line
from tests.gateway.exports.rows import ROWS


@settings(max_examples=100, deadline=None)
@given(ROWS)
def test_rows_come_back(rows: list[dict[str, Any]]) -> None:
    found = [json.loads(text) for text in b"".join(map(line, rows)).split(b"\n")[:-1]]
    assert len(found) == len(rows)
    for read, row in zip(found, rows, strict=True):
        assert list(read) == [column.name for column in COLUMNS]
        for column in COLUMNS:
            value = row[column.source]
            if value is not None and column.kind == "instant":
                value = instant(value)
            elif value is not None and column.kind == "text":
                value = str(value)
            assert read[column.name] == value
            assert type(read[column.name]) is type(value)
