"""What has been kept long enough goes, whatever may still be needed stays, and events go only if it is safe."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from gateway.db import Database
from gateway.retention import service as module
from gateway.retention.service import Retention
from tests.gateway.books import Books
from tests.gateway.usage_events import settled, write

OLD = datetime(2025, 3, 10, 12, tzinfo=UTC)
KEPT = timedelta(days=90)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """As the application connects: without the right to delete facts."""
    database = Database(database_url, name="test-retention", pool_size=2)
    yield database
    await database.close()


async def _guard(books: Books, request_id: str, age_days: int) -> None:
    await books.run(
        "INSERT INTO settled_request (request_id, tenant_id, event_id, occurred_at, is_provisional, settled_at)"
        " VALUES (:id, 'proj_a', gen_random_uuid(), now(), false, now() - make_interval(days => :days))",
        id=request_id,
        days=age_days,
    )


async def test_guards_go_after_their_horizon_in_steps(
    books: Books, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ROWS_PER_STEP", 2)
    for number in range(5):
        await _guard(books, f"req_{number}", 46)
    await _guard(books, "req_young", 44)
    gone = await Retention(database, None).run_once()
    assert gone["settled_request"] == 5
    assert await books.value("SELECT request_id FROM settled_request") == "req_young"


async def test_rows_of_journals_go_when_they_match_and_later_when_they_do_not(
    books: Books, database: Database
) -> None:
    for name, age, matched, drift in (
        ("matched", 15, True, 0),
        ("fresh", 13, True, 0),
        ("differs", 15, True, 3),
        ("unmatched", 15, False, None),
        ("ancient", 46, False, None),
    ):
        await books.run(
            """INSERT INTO journal_attempt (request_id, attempt, replica_id, epoch, has_ended, prompt_tokens,
                cached_tokens, completion_tokens, overrun_tokens, at, read_at, matched_at, drift_tokens)
            VALUES (:id, 0, 'r', 'e', true, 1, 0, 1, 0, now(), now() - make_interval(days => :age),
                CASE WHEN :matched THEN now() END, :drift)""",
            id=name,
            age=age,
            matched=matched,
            drift=drift,
        )
    await Retention(database, None).run_once()
    rows = await books.rows("SELECT request_id FROM journal_attempt ORDER BY 1")
    assert [row[0] for row in rows] == ["differs", "fresh", "unmatched"]


async def test_runs_without_holds_epochs_minutes_and_refusals_go(books: Books, database: Database) -> None:
    await books.run(
        """INSERT INTO gateway_instance (instance_id, gateway_id, heartbeat_at)
        VALUES ('dead', 'g', now() - interval '8 days'), ('alive', 'g', now())"""
    )
    await books.run(
        "INSERT INTO engine_epoch (replica_id, epoch, last_seen_at) VALUES ('r', 'old', now() - interval '91 days')"
    )
    await books.run(
        """INSERT INTO refusal_minute VALUES (now() - interval '63 days', 'g', 't', 'k', 'm', 'r', 1, 'run'),
            (now() - interval '61 days', 'g', 't', 'k', 'm', 'r', 1, 'run')"""
    )
    gone = await Retention(database, None).run_once()
    assert (gone["gateway_instance"], gone["engine_epoch"], gone["refusal_minute"]) == (1, 1, 1)
    assert await books.value("SELECT instance_id FROM gateway_instance") == "alive"


async def test_what_counts_towards_objectives_goes_by_the_minute_then_by_the_hour(
    books: Books, database: Database
) -> None:
    for unit, age in (("minute", 9), ("minute", 7), ("hour", 63), ("hour", 61), ("day", 900)):
        at = f"date_trunc('minute', now()) - interval '{age} days'"
        await books.run(f"INSERT INTO slo_{unit} VALUES ({at}, 't', 'm', 'interactive', 'ttft', 1, 1, 1)")
        await books.run(
            f"INSERT INTO latency_{unit} VALUES ({at}, 't', 'm', 'batch', 'p', '{{}}', '{{}}', '{{}}')"
        )
    gone = await Retention(database, None).run_once()
    tables = [f"{kind}_{unit}" for kind in ("slo", "latency") for unit in ("minute", "hour", "day")]
    assert [gone.get(table) for table in tables] == [1, 1, None] * 2
    assert [await books.count(table) for table in tables] == [1] * 6


async def test_minutes_go_only_from_closed_periods(books: Books, database: Database) -> None:
    """An open one is yet to be recomputed, however long that takes."""
    await write(books.database, [settled(1, OLD)])
    assert (await Retention(database, None).run_once())["rollup_minute"] == 0
    await books.run(
        "INSERT INTO billing_period VALUES ('2025-03', '2025-03-01Z', '2025-04-01Z', 1, 15, 3000)"
    )
    assert (await Retention(database, None).run_once())["rollup_minute"] == 1
    assert await books.count("rollup_hour") == 1


async def test_deliveries_that_are_over_go_and_what_fired_in_periods_with_an_end(
    books: Books, database: Database
) -> None:
    await books.run("INSERT INTO alert_record VALUES ('a', 't', NULL, '{}', now())")
    for name, age, due in (("over", 31, "NULL"), ("fresh", 29, "NULL"), ("going", 31, "now()")):
        await books.run(
            "INSERT INTO delivery (id, record_id, channel, target_key, target, next_attempt_at, created_at)"
            f" VALUES (:id, 'a', 'email', :id, '{{}}', {due}, now() - make_interval(days => :age))",
            id=name,
            age=age,
        )
    for columns in (
        "alert_firing (subject, period_key, threshold_nanousd, fired_at)",
        "budget_refusal (budget_id, period_key, limit_nanousd, refused_at)",
    ):
        await books.run(
            f"INSERT INTO {columns} VALUES ('s', '2026-01', 1, now() - interval '63 days'),"
            " ('s', '2026-03', 1, now()), ('s', 'prepaid', 1, now() - interval '63 days')"
        )
    gone = await Retention(database, None).run_once()
    assert (gone["delivery"], gone["alert_firing"], gone["budget_refusal"]) == (1, 1, 1)
    kept = await books.rows("SELECT id FROM delivery ORDER BY 1")
    assert [row[0] for row in kept] == ["fresh", "going"]
    assert await books.count("alert_record") == 1


async def test_a_month_of_events_goes_only_when_it_is_old_closed_and_exported(
    books: Books, database: Database
) -> None:
    """Duty C23: retention by dropping partitions, never by deleting rows of the ledger one by one."""
    await write(books.database, [settled(1, OLD)], fold=False)
    await books.run("UPDATE attempt SET recorded_at = :old", old=OLD)
    retention = Retention(database, KEPT)

    async def months_gone() -> int:
        return (await retention.run_once())["usage_event"]

    assert await months_gone() == 0, "not closed"
    await books.run(
        "INSERT INTO billing_period VALUES ('2025-03', '2025-03-01Z', '2025-04-01Z', 1, 15, 3000)"
    )
    assert await months_gone() == 0, "not exported"
    await _exported(books, "2025-03-01", "2025-03-31")
    assert await months_gone() == 0, "one day is missing"
    await _exported(books, "2025-03-31", "2025-04-01", format="focus")
    assert await months_gone() == 0, "sums are not events"
    await _exported(books, "2025-03-31", "2025-04-01")
    assert (await Retention(database, None).run_once())["usage_event"] == 0, "kept for ever unless told"
    assert await books.count("attempt") == 1
    assert await months_gone() == 1
    assert await books.count("usage_event") == 0
    assert (await retention.run_once())["usage_event"] == 0
    assert await books.count("attempt") == 0


async def _exported(books: Books, first: str, end: str, format: str = "csv") -> None:
    await books.run(
        """INSERT INTO export_run (id, format, period_start, period_end, destination, requested_by, status, manifest)
        VALUES (gen_random_uuid()::text, :format, CAST(:first AS text)::date, CAST(:end AS text)::date, 'd', 'me',
            'succeeded', '{}')""",
        first=first,
        end=end,
        format=format,
    )
