"""The columns of the event formats against the table they come from."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

from gateway.exports.columns import COLUMNS, instant
from gateway.ledger.models import UsageEvent


def test_every_column_of_the_ledger_is_exported_once() -> None:
    assert sorted(column.source for column in COLUMNS) == sorted(c.name for c in UsageEvent.__table__.columns)
    assert len({column.name for column in COLUMNS}) == len(COLUMNS)


def test_what_may_be_null_is_said() -> None:
    nullable = {c.name for c in UsageEvent.__table__.columns if c.nullable}
    assert {column.source for column in COLUMNS if column.is_nullable} == nullable


def test_instants_are_utc_and_sort_as_text() -> None:
    plain = datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    assert instant(plain) == "2025-12-31T23:00:00.000000Z"
    assert instant(plain + timedelta(microseconds=1)) > instant(plain)


def test_every_column_is_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "exports.md").read_text(encoding="utf-8")
    assert [column.name for column in COLUMNS if f"`{column.name}`" not in text] == []
