"""The application's role, as a login of its own: what the ledger needs works, and facts cannot be changed."""

from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from gateway.db import Database
from gateway.retention.service import Retention
from gateway.worker import Worker
from tests.conftest import execute
from tests.fakes.clock import ManualClock
from tests.gateway.books import Books, MakeLedger, books, make_ledger
from tests.gateway.ledger.builders import reservation, settlement
from tests.gateway.usage_events import settled, write

__all__ = ["books", "make_ledger"]

LOGIN, PASSWORD = "tollway_test_login", "only-for-this-test"
FACTS = ("usage_event", "attempt", "price", "audit_log", "ledger_entry", "billing_period")


@pytest.fixture
def app_url(database_url: str) -> Iterator[str]:
    """The database as a login that is a member of the application's role and nothing else."""
    execute(database_url, f"DROP ROLE IF EXISTS {LOGIN}")
    execute(database_url, f"CREATE ROLE {LOGIN} LOGIN PASSWORD '{PASSWORD}' IN ROLE tollway_app")
    parts = urlsplit(database_url)
    yield urlunsplit(parts._replace(netloc=f"{LOGIN}:{PASSWORD}@{parts.hostname}:{parts.port}"))
    execute(database_url, f"DROP ROLE {LOGIN}")


@pytest.fixture
async def login(app_url: str, books: Books) -> AsyncIterator[asyncpg.Connection]:
    """With one settled event in the books."""
    await write(books.database, [settled(1, ManualClock().now())])
    connection = await asyncpg.connect(app_url)
    yield connection
    await connection.close()


@pytest.mark.parametrize("table", FACTS)
async def test_facts_are_written_once(login: asyncpg.Connection, table: str) -> None:
    await login.fetch(f"SELECT * FROM {table} LIMIT 1")
    column = await login.fetchval(
        "SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum = 2", table
    )
    for statement in (f"UPDATE {table} SET {column} = {column}", f"DELETE FROM {table}", f"TRUNCATE {table}"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await login.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM settled_request",
        "DELETE FROM budget_period",
        "UPDATE config_revision SET revision = 0",
        "UPDATE usage_event_2026_01 SET amount_nanousd = 0",
        "DELETE FROM usage_event_2026_01",
        "DROP TABLE usage_event_2026_01",
        "CREATE TABLE mine (id int)",
        "ALTER TABLE usage_event ADD COLUMN mine int",
        "ALTER TABLE usage_event DISABLE TRIGGER ALL",
        "DROP FUNCTION prune_attempts(integer)",
        "SET ROLE tollway",
        "UPDATE alembic_version SET version_num = '0001'",
    ],
)
async def test_neither_protected_rows_nor_the_schema_can_be_changed(
    login: asyncpg.Connection, statement: str
) -> None:
    with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.InvalidParameterValueError)):
        await login.execute(statement)


async def test_everything_that_the_processes_do_works_with_it(
    app_url: str, books: Books, make_ledger: MakeLedger
) -> None:
    await books.add_budget(10**9)
    ledger = await make_ledger(url=app_url)
    hold = await ledger.reserve(reservation("req_1"))
    ledger.settle(settlement(hold, hold.reserved_at))
    await ledger.drain()
    database = Database(app_url, name="test-roles", pool_size=2)
    clock = ManualClock(hold.reserved_at)
    worker = Worker(database, None, clock=clock, metrics=ledger._metrics)  # type: ignore[arg-type]
    await worker.fold_outbox()
    await worker.make_partitions()
    clock.advance(86_400)
    await worker.check_drift()
    await worker.close_periods()
    await Retention(database, None).run_once()
    await database.close()
    assert await books.value("SELECT sum(requests)::int FROM rollup_day") == 1
    assert ledger._metrics.ledger_drift_nanousd._value.get() == 0
