"""Runs made by workers: scheduled day by day, taken up after a crash, failures recorded and tried again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from gateway.clock import SystemClock
from gateway.db import Database
from gateway.exports.delivery import MeterDelivery
from gateway.exports.jobs import LEASE, ExportJobs
from gateway.exports.repository import runs
from gateway.exports.store import DirectoryStore
from gateway.exports.types import CLOSING_LAG, COMMIT_MARGIN, ExportConflict, ExportError, FormatName
from gateway.ids import IdSource
from gateway.obs.metrics import Metrics
from tests.fakes.stripe import KEY, FakeStripe
from tests.gateway.exports.ledger import Ledger, spec

MakeJobs = Callable[..., ExportJobs]


@pytest.fixture
def make_jobs(database: Database, ledger: Ledger, tmp_path: Path) -> MakeJobs:
    def make(formats: tuple[FormatName, ...] = (), delivers: bool = False) -> ExportJobs:
        store = DirectoryStore(tmp_path)
        return ExportJobs(database, store, IdSource(), Metrics(), formats=formats, delivers=delivers)

    return make


async def _rows(ledger: Ledger) -> list[Any]:
    return await ledger.books.rows(
        "SELECT status, attempts, error, next_attempt_at - now(), manifest FROM export_run ORDER BY id"
    )


async def test_each_closed_day_is_exported_once(make_jobs: MakeJobs, ledger: Ledger, tmp_path: Path) -> None:
    """From the first event on; a worker that was away catches up, and two of them make nothing twice."""
    jobs, other = make_jobs(("csv", "focus")), make_jobs(("csv", "focus"))
    await jobs.run_due()
    assert await _rows(ledger) == []
    ledger.event(await ledger.books.value("SELECT now() - interval '4 days'"))
    await ledger.write()
    await ledger.close_months(until="now()")
    await jobs.run_due()
    await ledger.books.run("DELETE FROM export_run WHERE period_start < (now() AT TIME ZONE 'UTC')::date - 2")
    await other.run_due()
    await jobs.run_due()
    first, last = (
        await ledger.books.value("SELECT (now() AT TIME ZONE 'UTC')::date - 4"),
        await _last_day(ledger),
    )
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    found = await ledger.books.rows(
        "SELECT period_start, status, requested_by FROM export_run WHERE format = 'csv' ORDER BY period_start"
    )
    assert [tuple(row) for row in found] == [(day, "succeeded", "schedule") for day in days]
    assert await ledger.books.count("export_run") == 2 * len(days)
    span = f"{last.isoformat()}_{(last + timedelta(days=1)).isoformat()}"
    assert (tmp_path / "focus" / span / "all" / "manifest.json").exists()


async def _last_day(ledger: Ledger) -> date:
    now = await ledger.books.value("SELECT now()")
    closed: date = (now - CLOSING_LAG - COMMIT_MARGIN).date() - timedelta(days=1)
    return closed


async def test_a_failure_is_recorded_and_tried_again(
    make_jobs: MakeJobs, ledger: Ledger, tmp_path: Path
) -> None:
    jobs = make_jobs()
    await _ask(ledger, jobs)
    (tmp_path / ".staging").write_text("in the way")
    with pytest.raises(ExportError):
        await jobs.run_due()
    await jobs.run_due()
    ((status, attempts, error, wait, manifest),) = await _rows(ledger)
    assert (status, attempts, manifest) == ("queued", 1, None)
    assert "cannot be written" in error
    assert wait > timedelta(0)
    (tmp_path / ".staging").unlink()
    await ledger.books.run("UPDATE export_run SET next_attempt_at = now()")
    assert await ledger.books.count("alert_record") == 0
    await jobs.run_due()
    ((status, attempts, error, wait, manifest),) = await _rows(ledger)
    assert (status, attempts, error, wait) == ("succeeded", 2, None, None)
    assert manifest["totals"] == {}
    [told] = await ledger.books.rows(
        "SELECT type, payload ->> 'export_id' = run.id FROM alert_record, export_run run"
    )
    assert tuple(told) == ("export.finished", True)
    assert await ledger.books.count("outbox") == 1


async def test_what_cannot_succeed_is_not_tried_again(
    make_jobs: MakeJobs, ledger: Ledger, tmp_path: Path
) -> None:
    await ledger.fill()
    jobs = make_jobs()
    await jobs.make(spec(), "test", lambda done, total: None)
    manifest = tmp_path / spec().prefix / "manifest.json"
    manifest.write_bytes(b"{}")
    await _ask(ledger, jobs)
    with pytest.raises(ExportConflict):
        await jobs.run_due()
    rows = await _rows(ledger)
    assert [(row[0], row[3]) for row in rows] == [("succeeded", None), ("failed", None)]
    await ledger.books.run(
        "UPDATE export_run SET status = 'queued', attempts = 11, next_attempt_at = now() WHERE error <> ''"
    )
    (tmp_path / ".staging").rename(tmp_path / "away")
    (tmp_path / ".staging").write_text("in the way")
    with pytest.raises(ExportError):
        await jobs.run_due()
    assert [row[0] for row in await _rows(ledger)] == ["succeeded", "failed"]


async def test_a_dead_workers_run_is_taken_over(
    make_jobs: MakeJobs, ledger: Ledger, database: Database
) -> None:
    jobs = make_jobs()
    await _ask(ledger, jobs)
    async with database.write() as session:
        assert await runs.claim(session, jobs._store.address, LEASE) is not None
    await jobs.run_due()
    assert [row[0] for row in await _rows(ledger)] == ["running"]
    await ledger.books.run("UPDATE export_run SET next_attempt_at = now()")
    await jobs.run_due()
    assert [row[:2] for row in await _rows(ledger)] == [("succeeded", 2)]


async def test_by_hand_an_unfinished_run_is_taken_up(make_jobs: MakeJobs, ledger: Ledger) -> None:
    jobs = make_jobs()
    await _ask(ledger, jobs)
    done: list[int] = []
    await jobs.make(spec(), "test", lambda count, total: done.append(count))
    assert [row[:2] for row in await _rows(ledger)] == [("succeeded", 1)]
    assert done[-1] == 0
    await jobs.make(spec(), "test", lambda count, total: None, resume=False)
    assert [row[0] for row in await _rows(ledger)] == ["succeeded", "succeeded"]


async def test_meter_events_of_scheduled_runs_are_queued_once(make_jobs: MakeJobs, ledger: Ledger) -> None:
    await ledger.books.run("INSERT INTO stripe_customer VALUES ('proj_a', 'cus_a', '2026-01-01Z')")
    await ledger.fill()
    jobs = make_jobs(delivers=True)
    for scheduled in (False, True, True):
        await _ask(ledger, jobs, "stripe")
        await ledger.books.run(
            "UPDATE export_run SET is_scheduled = :scheduled, period_end = period_end WHERE status = 'queued'",
            scheduled=scheduled,
        )
        await jobs.run_due()
        queued = await ledger.books.value("SELECT coalesce(sum(amount_nanousd), 0)::bigint FROM meter_event")
        assert queued == ((await ledger.sums())["proj_a"]["amount_nanousd"] if scheduled else 0)
        await ledger.books.run("UPDATE export_run SET is_scheduled = false")
    row = (
        await ledger.books.rows("SELECT DISTINCT tenant_id, customer_id, event_name, status FROM meter_event")
    )[0]
    assert tuple(row) == ("proj_a", "cus_a", "tollway_nanousd", "pending")


async def test_from_the_ledger_to_stripe(
    database: Database, ledger: Ledger, tmp_path: Path, make_jobs: MakeJobs
) -> None:
    """What Stripe's meter sums up to is what the ledger says that the project owes, however often workers run."""
    await ledger.books.run("INSERT INTO stripe_customer VALUES ('proj_a', 'cus_a', '2026-01-01Z')")
    for hours in (60, 61, 62, 85):
        ledger.event(
            await ledger.books.value(f"SELECT now() - interval '{hours} hours'"), tokens=(hours, 5, 7)
        )
    await ledger.write()
    clock = SystemClock()
    async with FakeStripe(lambda: int(clock.now().timestamp())) as stripe:
        delivery = MeterDelivery(database, clock, Metrics(), stripe.url, KEY)
        for jobs in (make_jobs(("stripe",), delivers=True), make_jobs(("stripe",), delivers=True)):
            await jobs.run_due()
            await delivery.run_due()
        assert stripe.totals == {"cus_a": (await ledger.sums())["proj_a"]["amount_nanousd"]}
        assert stripe.calls == 4


async def _ask(ledger: Ledger, jobs: ExportJobs, format: FormatName = "csv") -> None:
    async with jobs._database.write() as session:
        await runs.request(session, IdSource().new("export"), spec(format), jobs._store.address, "test")
