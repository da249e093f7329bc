"""Restore from a backup: cursors are of their time, journals are read again, and nothing is settled twice or lost."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from engine.server.journal import Journal, Record
from engine.server.journal_reader import read_page
from gateway.db import Database
from gateway.ids import IdSource, ReplicaId
from gateway.ledger.repository.rollups import fold_usage, rollup_drift
from gateway.ledger.service import Ledger
from gateway.ledger.settling import SettleBatch
from gateway.ledger.types import AttemptRecord, Hold, Settlement
from gateway.migrate import check_schema
from gateway.obs.metrics import Metrics
from gateway.reconcile.journal import JournalPage, ReplicaRef, ReplicaStatus
from gateway.reconcile.records import read_records
from gateway.reconcile.repository.drift import epoch_sums, event_drift
from gateway.reconcile.service import Reconciler
from tests.fakes.clock import ManualClock
from tests.gateway.books import Books, MakeLedger, books, make_ledger
from tests.gateway.ledger.builders import reservation
from tests.gateway.postgres_programs import environment_of, plain, run
from tests.instants import just_now

__all__ = ["books", "make_ledger"]

REPLICA = ReplicaId("replica_1")
NOW_MS = int(just_now().timestamp() * 1000)
COST = 10 * 100 + 7 * 400


class Engine:
    """A replica's real journal, read by the engine's own reader."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.journal = Journal(directory, 0, lambda: NOW_MS)

    def write(self, kind: str, request_id: str, completion: int = 0) -> None:
        self.journal.write(
            Record(
                kind=kind,  # type: ignore[arg-type]  # one of the three
                request_id=request_id,
                engine_request_id=f"cmpl-{request_id}",
                attempt=0,
                epoch="e1",
                prompt_tokens=10,
                completion_tokens=completion,
                finish_reason="stop" if kind == "end" else None,
            )
        )

    async def status(self, replica: ReplicaRef) -> ReplicaStatus:
        return ReplicaStatus("e1", frozenset())

    async def read(self, replica: ReplicaRef, after: str | None, limit: int) -> JournalPage:
        page = await asyncio.to_thread(read_page, self._directory, after or "", limit)
        records, unreadable = read_records(msgspec.json.encode(record) for record in page.records)
        return JournalPage(records, page.cursor, page.complete, unreadable)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    engine = Engine(tmp_path / "journal")
    yield engine
    engine.journal.close()


async def test_a_restored_backup_replays_the_journals_and_settles_nothing_twice(
    books: Books,
    make_ledger: MakeLedger,
    engine: Engine,
    database_url: str,
    empty_database_url: str,
    server_directory: Path,
    tmp_path: Path,
) -> None:
    await books.add_budget(10**9)
    await books.run("INSERT INTO pool (id, name, spec) VALUES ('pool_a', 'a', '{}')")
    await books.run(
        "INSERT INTO replica (id, pool_id, node, url) VALUES (:id, 'pool_a', 'n', 'http://x')", id=REPLICA
    )
    ledger = await make_ledger()
    await _serve(ledger, engine, "req_before")
    open_hold = await ledger.reserve(reservation("req_open"))
    engine.write("start", "req_open")
    async with asyncio.timeout(60):
        while not await books.count("settled_request"):  # noqa: ASYNC110  # the batcher commits when it can
            await asyncio.sleep(0.01)
    async with _Worker(database_url, engine) as worker:
        await worker.run_once()
    cursor = await books.value("SELECT cursor FROM journal_cursor")

    backup = tmp_path / "ledger.dump"
    await asyncio.to_thread(_dump, server_directory, database_url, backup)

    _end(ledger, engine, open_hold)
    await _serve(ledger, engine, "req_after")
    await ledger.drain()
    async with _Worker(database_url, engine) as worker:
        await worker.run_once()
    assert await books.value("SELECT sum(amount_nanousd)::int FROM usage_event") == 3 * COST

    await asyncio.to_thread(_restore, server_directory, backup, empty_database_url)
    restored = Books(Database(empty_database_url, name="test-restored", pool_size=2, role=None))
    assert await restored.value("SELECT cursor FROM journal_cursor") == cursor
    assert await restored.held_and_spent() == (open_hold.amount_nanousd, COST)
    await restored.run("UPDATE gateway_instance SET heartbeat_at = now() - interval '1 hour'")
    async with _Worker(empty_database_url, engine) as worker:
        await check_schema(worker._database)
        assert await worker.run_once() == 1
        await restored.run("UPDATE journal_attempt SET read_at = now() - interval '2 hours'")
        assert await worker.run_once() == 0
        await worker.check()
    await _check_books(restored)
    await restored.database.close()


async def _check_books(restored: Books) -> None:
    """Duty A1: after the restore too, each request that the books know has one event, equal to its journal."""
    events = await restored.rows(
        "SELECT request_id, amount_nanousd, completion_tokens FROM usage_event ORDER BY 1"
    )
    assert [tuple(row) for row in events] == [("req_before", COST, 7), ("req_open", COST, 7)]
    assert await restored.held_and_spent() == (0, 2 * COST)
    items = await restored.rows("SELECT kind, request_id, details ->> 'completion_tokens' FROM review_item")
    assert [tuple(row) for row in items] == [("evidence_without_request", "req_after", "7")], (
        "listed, not lost"
    )
    async with restored.database.transaction() as connection:
        assert await event_drift(connection, 3600) == 0
        (sums,) = await epoch_sums(connection)
        assert (sums.journalled, sums.billed) == (2 * 17, 2 * 17)
        await fold_usage(connection, 100)
        today = datetime.fromtimestamp(NOW_MS / 1000, UTC).date()
        assert not await rollup_drift(connection, today, today + timedelta(days=366))


async def _serve(ledger: Ledger, engine: Engine, request_id: str) -> None:
    hold = await ledger.reserve(reservation(request_id))
    engine.write("start", request_id)
    _end(ledger, engine, hold)


def _end(ledger: Ledger, engine: Engine, hold: Hold) -> None:
    engine.write("end", hold.request_id, 7)
    record = AttemptRecord.billed(
        0, REPLICA, "e1", prompt_tokens=10, cached_tokens=0, completion_tokens=7, finish_reason="stop"
    )
    ledger.settle(Settlement(hold, "ok", datetime.now(UTC), (record,)))


class _Worker:
    """A reconciler with its own connections, as the worker process has one."""

    def __init__(self, url: str, engine: Engine) -> None:
        self._database = Database(url, name="test-restore", pool_size=2)
        self._reconciler = Reconciler(
            self._database,
            engine,
            SettleBatch(IdSource()),
            clock=ManualClock(datetime.now(UTC)),
            metrics=Metrics(),
            lag_s=0,
            gateway_silence_s=30,
        )

    async def __aenter__(self) -> "_Worker":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._database.close()

    async def run_once(self) -> int:
        return await self._reconciler.run_once()

    async def check(self) -> None:
        await self._reconciler.check()


def _dump(server_directory: Path, url: str, target: Path) -> None:
    _run(server_directory, "pg_dump", "--format=custom", f"--file={target}", plain(url))


def _restore(server_directory: Path, backup: Path, url: str) -> None:
    _run(server_directory, "pg_restore", "--exit-on-error", f"--dbname={plain(url)}", str(backup))


def _run(server_directory: Path, *command: str) -> None:
    done = run(environment_of(server_directory), *command)
    assert done.returncode == 0, done.stderr
