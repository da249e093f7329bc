"""An export from beginning to end, to a real directory from a real ledger."""

from __future__ import annotations

import csv
import hashlib
import os
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import orjson
import pyarrow.parquet as pq
import pytest

from gateway.db import Database
from gateway.exports.csv import text_of
from gateway.exports.service import export
from gateway.exports.store import DirectoryStore
from gateway.exports.types import FORMATS, ExportConflict, ExportSpec, FormatName, Period, PeriodOpen
from tests.gateway.exports.ledger import DAY, FIELDS, Ledger, spec

EVENTS: tuple[FormatName, ...] = ("csv", "jsonl", "parquet")


def quiet(done: int, total: int) -> None:
    assert done <= total


async def made(database: Database, root: Path, wanted: ExportSpec) -> Path:
    await export(database, DirectoryStore(root), wanted, quiet)
    return root / wanted.prefix


def rows_of(directory: Path) -> list[dict[str, object]]:
    """The rows of an export of events, with the types that its format has."""
    rows: list[dict[str, object]] = []
    for path in sorted(directory.glob("part-*")):
        if path.suffix == ".csv":
            with path.open(newline="", encoding="utf-8") as file:
                for row in csv.DictReader(file):
                    rows.append(
                        {
                            name: int(value) if name in FIELDS else text_of(value)
                            for name, value in row.items()
                        }
                    )
        elif path.suffix == ".jsonl":
            rows += [orjson.loads(line) for line in path.read_bytes().splitlines()]
        else:
            rows += pq.read_table(path).to_pylist()
    return rows


def sums_of(rows: list[dict[str, object]]) -> dict[str, dict[str, int]]:
    sums: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(FIELDS, 0))
    for row in rows:
        for name in FIELDS:
            sums[str(row["project_id"])][name] += int(str(row[name]))
    return dict(sums)


async def test_files_and_manifest_add_up_to_the_ledger(
    database: Database, ledger: Ledger, tmp_path: Path
) -> None:
    await ledger.fill(days=2)
    for format in EVENTS:
        await _check_sums(database, ledger, tmp_path, format)


async def _check_sums(database: Database, ledger: Ledger, tmp_path: Path, format: FormatName) -> None:
    directory = await made(database, tmp_path, spec(format, days=2))
    expected = await ledger.sums()
    rows = rows_of(directory)
    assert sums_of(rows) == expected
    manifest = orjson.loads((directory / "manifest.json").read_bytes())
    assert manifest["rows"] == manifest["totals"]["events"] == len(rows) == 38
    assert {t: {n: s[n] for n in FIELDS} for t, s in manifest["projects"].items()} == expected
    for name in FIELDS:
        assert manifest["totals"][name] == sum(sums[name] for sums in expected.values())
    for file in manifest["files"]:
        content = (directory / file["name"]).read_bytes()
        assert (file["bytes"], file["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert {path.name for path in directory.iterdir()} == {
        "manifest.json",
        *(f["name"] for f in manifest["files"]),
    }
    order = [(row["occurred_at"], row["event_id"]) for row in rows]
    assert order == sorted(order)


async def test_the_same_period_gives_the_same_bytes(
    database: Database, ledger: Ledger, tmp_path: Path
) -> None:
    await ledger.fill()
    first = {format: await made(database, tmp_path / "first", spec(format)) for format in FORMATS}
    ledger.event(DAY + timedelta(hours=1), recorded_after=timedelta(hours=26))  # belongs to the next day
    await ledger.write()
    for format, directory in first.items():
        again = await made(database, tmp_path / "second", spec(format))
        assert _content(directory) == _content(again)


def _content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


async def test_every_event_is_in_exactly_one_day(database: Database, ledger: Ledger, tmp_path: Path) -> None:
    """Late ones in that in which they were recorded; together the days are the whole."""
    await ledger.fill(days=3)
    late = ledger.event(DAY + timedelta(hours=23), recorded_after=timedelta(hours=20))
    in_time = ledger.event(DAY + timedelta(hours=23), recorded_after=timedelta(hours=2, minutes=59))
    at_the_end = ledger.event(DAY + timedelta(days=1), recorded_after=timedelta(0))
    await ledger.write()
    days = []
    for number in range(3):
        start = DAY.date() + timedelta(days=number)
        one = ExportSpec("csv", Period(start, start + timedelta(days=1)))
        days.append(rows_of(await made(database, tmp_path, one)))
    whole = rows_of(await made(database, tmp_path, spec(days=3)))
    assert sorted(str(row) for day in days for row in day) == sorted(map(str, whole))
    assert len(whole) == 3 * 19 + 3
    for event_id, number in ((late, 1), (in_time, 0), (at_the_end, 1)):
        assert [str(event_id) in {row["event_id"] for row in day} for day in days] == [
            n == number for n in range(3)
        ]


async def test_the_days_of_a_month_are_the_ledgers_month(
    database: Database, ledger: Ledger, tmp_path: Path
) -> None:
    """What comes late after the month's last day is still of the month, as it is in the ledger's billing period."""
    last = datetime(2026, 1, 31, 23, tzinfo=UTC)
    for late in (timedelta(minutes=1), timedelta(hours=3), timedelta(hours=70)):
        ledger.event(last, recorded_after=late)
        ledger.event(last - timedelta(days=1), recorded_after=late)
    ledger.event(last + timedelta(hours=1))
    await ledger.write()
    await ledger.close_months(until="'2026-02-01Z'::timestamptz")
    month = rows_of(
        await made(database, tmp_path, ExportSpec("jsonl", Period(date(2026, 1, 1), date(2026, 2, 1))))
    )
    days = []
    for number in (29, 30, 31, 32):
        start = date(2026, 1, 1) + timedelta(days=number - 1)
        one = ExportSpec("jsonl", Period(start, start + timedelta(days=1)))
        days.append(rows_of(await made(database, tmp_path, one)))
    assert [len(day) for day in days] == [0, 1, 5, 1]
    assert sorted(map(str, days[1] + days[2])) == sorted(map(str, month))


async def test_one_tenant_alone(database: Database, ledger: Ledger, tmp_path: Path) -> None:
    await ledger.fill()
    directory = await made(database, tmp_path, spec(tenant_id="proj_b"))
    assert sums_of(rows_of(directory)) == {"proj_b": (await ledger.sums())["proj_b"]}


async def test_a_period_without_events_is_an_empty_table(
    database: Database, ledger: Ledger, tmp_path: Path
) -> None:
    for format in EVENTS:
        directory = await made(database, tmp_path, spec(format))
        assert rows_of(directory) == []
        assert orjson.loads((directory / "manifest.json").read_bytes())["totals"] == {}


async def test_an_open_period_is_refused(database: Database, ledger: Ledger, tmp_path: Path) -> None:
    ((today,),) = await ledger.books.rows("SELECT (now() AT TIME ZONE 'UTC')::date")
    with pytest.raises(PeriodOpen, match="is not closed"):
        await made(database, tmp_path, ExportSpec("csv", Period(today, today + timedelta(days=1))))
    assert not (tmp_path / spec().prefix).exists()
    assert os.listdir(tmp_path) == [], "a refusal leaves nothing behind"


async def test_again_is_nothing_new_and_other_bytes_are_a_conflict(
    database: Database, ledger: Ledger, tmp_path: Path
) -> None:
    await ledger.fill()
    directory = await made(database, tmp_path, spec())
    before = directory.stat().st_ino
    assert (await made(database, tmp_path, spec())).stat().st_ino == before
    ledger.event(DAY + timedelta(hours=1))  # which no running ledger can do: the period is closed
    await ledger.write()
    with pytest.raises(ExportConflict):
        await made(database, tmp_path, spec())
    assert directory.stat().st_ino == before
