"""Drift, exports and keys."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from gateway.alerts.sources.others import (
    ExpiringKey,
    FailedExport,
    drift_signals,
    export_signals,
    key_signals,
)

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def key(lives: timedelta, left: timedelta) -> ExpiringKey:
    return ExpiringKey("key_a", "proj_a", "ci", NOW + left - lives, NOW + left)


def test_a_key_is_about_to_expire_in_its_last_week_or_quarter() -> None:
    year, day, hour = timedelta(days=365), timedelta(days=1), timedelta(hours=1)
    assert key_signals([key(year, 8 * day)], NOW) == []
    (signal,) = key_signals([key(year, 6 * day)], NOW)
    assert (signal.tenant_id, signal.values["key_id"]) == ("proj_a", "key_a")
    assert key_signals([key(day, 20 * hour)], NOW) == [], "it was made for a day"
    assert len(key_signals([key(day, 5 * hour)], NOW)) == 1
    assert key_signals([key(year, -hour)], NOW) == []


def test_books_that_differ() -> None:
    assert drift_signals({"rollups": None, "events": None}) is None
    found = drift_signals({"rollups": 0, "events": -3, "epochs": None})
    assert {one.scope: one.level for one in found or []} == {
        "rollups": "quiet",
        "events": "firing",
        "epochs": "between",
    }


def test_a_failed_export_says_which() -> None:
    (signal,) = export_signals(
        [FailedExport("export_1", "csv", "2026-10-01", "2026-11-01", None, "disk full")]
    )
    assert (signal.level, signal.scope, signal.tenant_id) == ("firing", "export_1", None)
    assert signal.values["error"] == "disk full"
