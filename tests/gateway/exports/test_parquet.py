"""Parquet: types, and bytes that do not depend on how the rows arrive."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gateway.exports import parquet
from gateway.exports.columns import COLUMNS
from gateway.exports.parquet import PARQUET
from tests.gateway.exports.ledger import DAY, spec

_SAMPLES = {"text": "t", "integer": 1, "boolean": True, "instant": DAY}


def _rows(count: int) -> list[dict[str, Any]]:
    plain = {column.source: _SAMPLES[column.kind] for column in COLUMNS}
    return [
        {
            **plain,
            "event_id": UUID(int=n),
            "corrects": None,
            "amount_nanousd": -n,
            "occurred_at": DAY + timedelta(seconds=n),
        }
        for n in range(count)
    ]


def _written(path: Path, pieces: Sequence[Sequence[dict[str, Any]]]) -> bytes:
    writer = PARQUET.open(path, spec())
    for piece in pieces:
        writer.write(piece)
    writer.close()
    return path.read_bytes()


def test_bytes_do_not_depend_on_how_rows_arrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP", 1_000)
    rows = _rows(2_010)
    whole = _written(tmp_path / "a", [rows])
    assert _written(tmp_path / "b", [rows[:7], [], rows[7:1_900], rows[1_900:]]) == whole
    metadata = pq.read_metadata(tmp_path / "a")
    assert [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)] == [1_000, 1_000, 10]


def test_values_and_types(tmp_path: Path) -> None:
    _written(tmp_path / "a", [_rows(3)])
    table = pq.read_table(tmp_path / "a")
    assert table.schema.field("amount_nanousd").type == pa.int64()
    assert table.schema.field("occurred_at").type == pa.timestamp("us", tz="UTC")
    assert [field.nullable for field in table.schema] == [column.is_nullable for column in COLUMNS]
    assert table.column("amount_nanousd").to_pylist() == [0, -1, -2]
    assert table.column("occurred_at").to_pylist()[2] == DAY + timedelta(seconds=2)
    assert table.column("corrects").to_pylist() == [None] * 3
