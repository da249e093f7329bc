"""Periods and how people write them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from gateway.exports.types import FORMATS, ExportSpec, Period, UnknownExport, spec_from


def _spec(**given: Any) -> ExportSpec:
    return spec_from("csv", None, **{"month": None, "start": None, "end": None, **given})


def test_a_month_a_day_and_a_span() -> None:
    assert _spec(month="2026-12").period == Period(date(2026, 12, 1), date(2027, 1, 1))
    assert _spec(month="2028-02").period.end == date(2028, 3, 1)
    assert _spec(start="2026-11-28").period == Period(date(2026, 11, 28), date(2026, 11, 29))
    span = _spec(start="2026-11-28", end="2026-12-02")
    assert span.prefix == "csv/2026-11-28_2026-12-02/all"
    assert spec_from("csv", "proj_a", month=None, start="2026-11-28", end=None).prefix.endswith("/proj_a")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "either a month or a first day"),
        ({"month": "2026-11", "start": "2026-11-01"}, "either a month or a first day"),
        ({"month": "2026-11", "end": "2026-11-02"}, "either a month or a first day"),
        ({"month": "2026-13"}, "2026-13-01 is no day"),
        ({"start": "yesterday"}, "yesterday is no day"),
        ({"start": "2026-11-02", "end": "2026-11-02"}, "has no day"),
    ],
)
def test_what_is_no_period_is_said(given: dict[str, str], said: str) -> None:
    with pytest.raises(UnknownExport, match=said):
        _spec(**given)
    with pytest.raises(UnknownExport, match="there is no format xml: csv, jsonl, parquet, focus, stripe"):
        spec_from("xml", None, month="2026-11", start=None, end=None)


def test_what_is_invoiced_at_once_is_booked_promptly() -> None:
    booked = {name: spec_from(name, None, month="2026-11", start=None, end=None).booking for name in FORMATS}
    assert booked.pop("stripe") == "prompt"
    assert set(booked.values()) == {"monthly"}


def test_instants_of_a_period_are_utc() -> None:
    period = Period(date(2026, 11, 28), date(2026, 11, 29))
    assert period.starts_at == datetime(2026, 11, 28, tzinfo=UTC)
    assert period.ends_at == datetime(2026, 11, 29, tzinfo=UTC)
