"""Parquet: one row per usage event, typed; amounts are int64 nano-USD, times are UTC with microseconds.

Row groups have a fixed number of rows however they arrive, and nothing in the file's metadata tells when or where it
was written, so the same rows give the same bytes (with the same version of the library, which the file names).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gateway.exports.columns import COLUMNS, Kind
from gateway.exports.formats import EventFormat
from gateway.exports.types import ExportRow

__all__ = ["PARQUET", "ROW_GROUP"]

ROW_GROUP = 50_000


class _ParquetWriter:
    def __init__(self, path: Path) -> None:
        self._schema = _schema()
        self._file = pq.ParquetWriter(path, self._schema, compression="zstd", version="2.6")
        self._waiting: pa.Table = self._schema.empty_table()
        self.rows = 0

    def write(self, rows: Sequence[ExportRow]) -> None:
        arrays = [
            pa.array(map(column.value, rows), type=field.type)
            for column, field in zip(COLUMNS, self._schema, strict=True)
        ]
        self._waiting = pa.concat_tables([self._waiting, pa.Table.from_arrays(arrays, schema=self._schema)])
        self.rows += len(rows)
        while self._waiting.num_rows >= ROW_GROUP:
            self._write_group(ROW_GROUP)

    def close(self) -> None:
        if self._waiting.num_rows:
            self._write_group(self._waiting.num_rows)
        self._file.close()

    def _write_group(self, rows: int) -> None:
        """In one chunk, however many the rows came in: the encoder's pages would differ."""
        group = self._waiting.slice(0, rows).combine_chunks()
        self._file.write_table(group, row_group_size=rows)
        self._waiting = self._waiting.slice(rows)


def _schema() -> pa.Schema:
    return pa.schema([pa.field(c.name, _type(c.kind), nullable=c.is_nullable) for c in COLUMNS])


def _type(kind: Kind) -> pa.DataType:
    match kind:
        case "text":
            return pa.string()
        case "integer":
            return pa.int64()
        case "boolean":
            return pa.bool_()
        case "instant":
            return pa.timestamp("us", tz="UTC")


PARQUET = EventFormat("parquet", _ParquetWriter)
