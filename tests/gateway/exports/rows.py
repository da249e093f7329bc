"""Drawn rows of `usage_event`, for the round trips of the formats."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from gateway.exports.columns import COLUMNS, Column

# What Postgres can hold as text, with the characters that CSV and spreadsheets trip over drawn often.
TEXT = st.text(
    st.one_of(st.sampled_from("=+-@'\"\t\r\n,; "), st.characters(exclude_characters="\0", codec="utf-8"))
)
_KINDS: dict[str, st.SearchStrategy[Any]] = {
    "text": TEXT,
    "integer": st.integers(-(1 << 63), (1 << 63) - 1),
    "boolean": st.booleans(),
    "instant": st.datetimes(datetime(2020, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
}


def _values(column: Column) -> st.SearchStrategy[Any]:
    plain = st.uuids() if column.source in ("event_id", "corrects") else _KINDS[column.kind]
    return st.none() | plain if column.is_nullable else plain


ROWS = st.lists(st.fixed_dictionaries({column.source: _values(column) for column in COLUMNS}), max_size=5)
