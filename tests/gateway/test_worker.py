"""The worker's loops: each does its work, and one that fails stands in nobody's way."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gateway.db import Database
from gateway.ids import IdSource
from gateway.ledger.batcher import commit_batch
from gateway.ledger.settling import Operation, SettleBatch
from gateway.ledger.types import Hold
from gateway.obs.metrics import Metrics
from gateway.settings import ExportSettings, Settings
from gateway.worker import Worker, _export_loops
from tests.fakes.clock import ManualClock
from tests.gateway.books import Books, books, make_ledger
from tests.gateway.ledger.builders import reservation, settlement
from tests.gateway.usage_events import settled, write

__all__ = ["books", "make_ledger"]

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


class BrokenReconciler:
    """Fails each time, as if every replica answered nonsense."""

    def __init__(self) -> None:
        self.runs = 0

    async def run_once(self) -> int:
        self.runs += 1
        raise LookupError("nonsense")

    async def check(self) -> None:
        raise LookupError("nonsense")


@pytest.fixture
def worker(books: Books) -> Worker:
    return Worker(books.database, BrokenReconciler(), clock=ManualClock(NOW), metrics=Metrics())  # type: ignore[arg-type]


async def _settle(database: Database, number: int) -> None:
    batch = SettleBatch(IdSource())
    hold = Hold(reservation(f"req_{number}"), 50_000, (), NOW, NOW)
    operations = [Operation(settlement=settlement(hold, NOW))]
    await batch.prepare(database, operations)
    assert await commit_batch(database, operations, batch.apply) == ["settled"]


async def test_the_outbox_is_folded_while_another_loop_fails(worker: Worker, books: Books) -> None:
    for number in range(3):
        await _settle(books.database, number)
    running = asyncio.create_task(worker.run())
    async with asyncio.timeout(60):
        while await books.count("outbox"):  # noqa: ASYNC110  (the condition is in the database)
            await asyncio.sleep(0.02)
    await _settle(books.database, 3)
    async with asyncio.timeout(60):
        while await books.count("outbox"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert await books.value("SELECT sum(requests)::int FROM rollup_hour") == 4
    assert worker._metrics.worker_runs.labels("reconcile", "failed")._value.get() >= 1


async def test_partitions_are_made_ahead(worker: Worker, books: Books) -> None:
    worker._clock.advance(400 * 86_400)  # type: ignore[attr-defined]
    await worker.make_partitions()
    found = await books.rows(
        "SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r' AND relname >= 'usage_event_2028' ORDER BY 1"
    )
    assert [row[0] for row in found] == ["usage_event_2028_01", "usage_event_2028_02", "usage_event_2028_03"]


async def test_drift_of_closed_days_is_a_metric(worker: Worker, books: Books) -> None:
    await _settle(books.database, 1)
    await worker.fold_outbox()
    worker._clock.advance(86_400)  # type: ignore[attr-defined]
    await worker.check_drift()
    assert worker._metrics.ledger_drift_nanousd._value.get() == 0
    await books.run("UPDATE rollup_day SET amount_nanousd = amount_nanousd - 5")
    await worker.check_drift()
    assert worker._metrics.ledger_drift_nanousd._value.get() == 5


async def test_at_night_every_closed_day_of_the_open_periods_is_recomputed(
    worker: Worker, books: Books
) -> None:
    await _settle(books.database, 1)
    await worker.fold_outbox()
    await books.run("UPDATE rollup_minute SET amount_nanousd = amount_nanousd - 5")
    worker._clock.advance(20 * 86_400)  # type: ignore[attr-defined]
    await worker.check_drift()
    assert worker._metrics.ledger_drift_nanousd._value.get() == 0, "by day only the last few"
    worker._clock.advance(14 * 3600)  # type: ignore[attr-defined]
    await worker.check_drift()
    assert worker._metrics.ledger_drift_nanousd._value.get() == 5


async def test_a_month_that_is_over_is_closed(worker: Worker, books: Books) -> None:
    await write(books.database, [settled(1, NOW - timedelta(days=90))])
    await worker.close_periods()
    rows = await books.rows("SELECT period_key, requests FROM billing_period ORDER BY 1")
    assert [tuple(row) for row in rows] == [("2026-08", 1), ("2026-09", 0), ("2026-10", 0)]


async def test_exports_are_made_where_they_are_configured(books: Books, tmp_path: Path) -> None:
    """Nothing without a destination; with a key for it, meter events as well."""
    key = tmp_path / "key"
    key.write_text("sk_test")
    exports = ExportSettings(destination=str(tmp_path / "out"), formats=("csv",))
    await books.run(
        "INSERT INTO export_run (id, format, period_start, period_end, destination, requested_by)"
        " VALUES ('export_1', 'csv', '2026-01-10', '2026-01-11', :destination, 'test')",
        destination=exports.destination,
    )
    for chosen, expected in (
        (ExportSettings(), []),
        (exports, ["exports"]),
        (exports.model_copy(update={"stripe_key_file": key}), ["exports", "meter_events"]),
    ):
        loops = _export_loops(Settings(exports=chosen), books.database, ManualClock(NOW), Metrics())
        assert [loop.name for loop in loops] == expected
        for loop in loops:
            await loop.run()
    assert await books.rows("SELECT format, status FROM export_run") == [("csv", "succeeded")]
