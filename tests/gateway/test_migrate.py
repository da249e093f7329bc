"""Migrations: from empty, one head, equal to the models, one runner at a time, and refused when too old or new."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, IntegrityError

import gateway.ledger.models as ledger
from gateway.db import Base, Database, owner_engine
from gateway.migrate import (
    SchemaGuard,
    SchemaMismatch,
    _config,
    check_schema,
    head_revision,
    migrate,
    pending_changes,
)
from gateway.routing.models import Price, Route
from gateway.tenancy.models import ApiKey, Tenant
from tests.conftest import apart, execute
from tests.gateway.books import Books
from tests.gateway.usage_events import settled, write

ROOT = Path(__file__).resolve().parents[2]
FIRST_DATA = """
INSERT INTO tenant (id, name) VALUES ('proj_a', 'a');
INSERT INTO price (sku, component, valid_from, nanousd_per_token)
VALUES ('tiny', 'input', '2026-01-01Z', 100), ('tiny', 'cached_input', '2026-01-01Z', 10),
    ('tiny', 'output', '2026-01-01Z', 400);
INSERT INTO pool (id, name, spec) VALUES ('pool_a', 'a', '{"model": "m", "routing_policy": "round_robin"}');
INSERT INTO route (id, served_model, pool_id, sku) VALUES ('route_a', 'tiny', 'pool_a', 'tiny');
INSERT INTO budget (id, scope, tenant_id, period, limit_nanousd) VALUES ('b', 'tenant', 'proj_a', 'monthly', 1000);
INSERT INTO budget_period (budget_id, period_key, spent_nanousd) VALUES ('b', '2026-11', 3000);
SELECT ensure_usage_partitions('2026-11-01', 1);
INSERT INTO usage_event (occurred_at, event_id, request_id, tenant_id, key_id, served_model, route_id, pool_id,
    endpoint, request_class, is_stream, status, prompt_uncached_tokens, prompt_cached_tokens, completion_tokens,
    reasoning_tokens, input_nanousd, cached_input_nanousd, output_nanousd, amount_nanousd, over_hold_nanousd,
    price_input_id, price_cached_input_id, price_output_id, client_retry_count)
VALUES ('2026-11-02Z', gen_random_uuid(), 'req_1', 'proj_a', 'key_a', 'tiny', 'route_a', 'pool_a',
    'chat.completions', 'interactive', false, 'ok', 10, 0, 5, 0, 1000, 0, 2000, 3000, 0, 1, 2, 3, 0);
INSERT INTO settled_request (request_id, tenant_id, event_id, occurred_at, is_provisional)
SELECT request_id, tenant_id, event_id, occurred_at, false FROM usage_event;
INSERT INTO attempt (request_id, attempt, tenant_id, prompt_tokens, cached_tokens, completion_tokens,
    overrun_tokens, billed_prompt_tokens, billed_completion_tokens)
VALUES ('req_1', 0, 'proj_a', 10, 0, 5, 0, 10, 5);
INSERT INTO journal_attempt (request_id, attempt, replica_id, epoch, has_ended, prompt_tokens, cached_tokens,
    completion_tokens, overrun_tokens, at, matched_at)
VALUES ('req_1', 0, 'r', 'e', true, 10, 0, 5, 0, '2026-11-02Z', now());
INSERT INTO rollup_day SELECT date_trunc('day', occurred_at, 'UTC'), tenant_id, key_id, served_model, pool_id,
    endpoint, request_class, status, 1, 10, 0, 5, 0, 1000, 0, 2000, 3000 FROM usage_event;
"""
CONSTRAINTS = """
SELECT rel.relname, con.conname, pg_get_constraintdef(con.oid)
FROM pg_constraint con JOIN pg_class rel ON rel.oid = con.conrelid
WHERE con.connamespace = 'public'::regnamespace AND con.contype <> 't' AND NOT rel.relispartition
    AND rel.relname <> 'alembic_version'
ORDER BY 1, 2
"""


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, name="test")
    yield database
    await database.close()


async def test_concurrent_runners_migrate_an_empty_database_once(empty_database_url: str) -> None:
    """Duty C22: migrations take an advisory lock and run once."""
    assert set(await asyncio.gather(*(migrate(empty_database_url) for _ in range(3)))) == {head_revision()}


def test_revisions_are_one_numbered_line() -> None:
    """Two changes that take the same number would hide one another, though each has one head."""
    found = sorted((ROOT / "migrations" / "versions").glob("0*.py"))
    for number, path in enumerate(found, 1):
        source = path.read_text(encoding="utf-8")
        revision = re.search(r'^revision = "(\d+)"$', source, re.MULTILINE)
        below = re.search(r'^down_revision = (?:None|"(\d+)")$', source, re.MULTILINE)
        assert revision, path.name
        assert below, path.name
        assert (path.name[:4], revision[1], int(below[1] or 0)) == (
            f"{number:04d}",
            f"{number:04d}",
            number - 1,
        )
    assert head_revision() == f"{len(found):04d}"


def test_every_revision_gives_up_on_a_lock_and_takes_nothing_away() -> None:
    """Expand, backfill, contract: the version before must go on working on the newer schema."""
    for path in sorted((ROOT / "migrations" / "versions").glob("0*.py")):
        source = path.read_text(encoding="utf-8")
        assert re.search(r"SET (LOCAL )?lock_timeout = ", source), path.name
        texts = [
            source,
            *(one.read_text() for one in (ROOT / "migrations" / "sql").glob(f"{path.name[:4]}_*.sql")),
        ]
        for statement in re.split(r";\n\n|\"\"\"|\n    \"", "\n".join(texts)):
            taken = re.search(
                r"^\s*(ALTER TABLE \w+[^;]*(DROP COLUMN|RENAME|\bTYPE\b)|DROP TABLE)", statement
            )
            assert not taken, f"{path.name} takes something away: {statement.strip()}"


async def test_a_database_with_data_keeps_it_through_every_revision(empty_database_url: str) -> None:
    """From the first release's schema, with what it wrote."""
    await asyncio.to_thread(apart, _upgrade_to(empty_database_url, "0001"))
    await asyncio.to_thread(execute, empty_database_url, FIRST_DATA)
    assert await migrate(empty_database_url) == head_revision()
    assert await pending_changes(empty_database_url) == []
    books = Books(Database(empty_database_url, name="test", role=None))
    event = (await books.rows("SELECT * FROM usage_event"))[0]
    assert (event.request_id, event.amount_nanousd, event.kind, event.late_from) == (
        "req_1",
        3000,
        "request",
        None,
    )
    for table in ("tenant", "price", "attempt", "budget", "journal_attempt", "rollup_day", "settled_request"):
        assert await books.count(table) >= 1, table
    [pool] = await books.rows("SELECT * FROM pool")
    assert (pool.strategy, pool.spec, pool.keep_alive_s) == ("round_robin", {"model": "m"}, None)
    await write(books.database, [settled(2, datetime(2026, 11, 3, tzinfo=UTC))])
    assert await books.value("SELECT sum(requests)::int FROM rollup_day") == 2
    await books.database.close()


async def test_a_runner_that_cannot_get_a_lock_fails_instead_of_stopping_everybody(
    empty_database_url: str,
) -> None:
    await asyncio.to_thread(apart, _upgrade_to(empty_database_url, "0001"))
    holder = Database(empty_database_url, name="test-holder", role=None)
    async with holder.transaction() as connection:
        await connection.execute(text("LOCK TABLE usage_event IN ACCESS SHARE MODE"))
        with pytest.raises(DBAPIError, match="lock timeout"):
            await migrate(empty_database_url)
    assert await migrate(empty_database_url) == head_revision(), "and can be tried again"
    await holder.close()


async def test_models_and_schema_agree(database_url: str) -> None:
    assert await pending_changes(database_url) == []


async def test_constraints_agree_by_name_and_definition(database_url: str, empty_database_url: str) -> None:
    """Autogenerate does not compare checks; making the tables from the models does."""
    from_models = owner_engine(empty_database_url)
    async with from_models.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
        modelled = (await connection.execute(text(CONSTRAINTS))).all()
    await from_models.dispose()
    migrated_engine = owner_engine(database_url)
    async with migrated_engine.connect() as connection:
        migrated = (await connection.execute(text(CONSTRAINTS))).all()
    await migrated_engine.dispose()
    assert modelled
    assert migrated == modelled


async def test_indexes_that_were_built_apart_are_whole(database: Database) -> None:
    """Each of usage_event's indexes is valid and has its part on every partition, on those made later too."""
    async with database.transaction() as connection:
        await connection.execute(text("SELECT ensure_usage_partitions('2031-05-01', 1)"))
    async with database.read() as session:
        invalid = await session.scalars(
            text("SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid OR NOT indisready")
        )
        assert invalid.all() == []
        parts = await session.execute(
            text(
                "SELECT x.indexrelid::regclass::text, count(i.inhrelid), (SELECT count(*) FROM pg_inherits"
                " WHERE inhparent = 'usage_event'::regclass) FROM pg_index x"
                " LEFT JOIN pg_inherits i ON i.inhparent = x.indexrelid"
                " WHERE x.indrelid = 'usage_event'::regclass GROUP BY 1"
            )
        )
        counts = {name: (found, wanted) for name, found, wanted in parts}
    assert len(counts) >= 8
    assert all(found == wanted for found, wanted in counts.values()), counts


async def test_check_schema_accepts_ours_and_one_newer_only(database: Database, database_url: str) -> None:
    """Duty C22: an older schema is refused, one newer is tolerated."""
    ours = int(head_revision())
    for found, accepted in ((ours, True), (ours + 1, True), (ours + 2, False), (ours - 1, False)):
        await asyncio.to_thread(
            execute, database_url, f"UPDATE alembic_version SET version_num = '{found:04d}'"
        )
        if accepted:
            assert await check_schema(database) == f"{found:04d}"
        else:
            with pytest.raises(SchemaMismatch):
                await check_schema(database)


async def test_check_schema_of_an_empty_database_says_what_to_do(empty_database_url: str) -> None:
    database = Database(empty_database_url, name="test")
    with pytest.raises(SchemaMismatch, match="tollway migrate"):
        await check_schema(database)
    await database.close()


async def test_a_cluster_without_the_role_says_what_to_do(empty_database_url: str) -> None:
    database = Database(empty_database_url, name="test", role="tollway_missing")
    with pytest.raises(SchemaMismatch, match="tollway migrate"):
        await check_schema(database)
    await database.close()


async def test_the_guard_waits_for_a_database_and_refuses_an_older_schema(
    database: Database, database_url: str
) -> None:
    away = Database("postgresql://nobody@127.0.0.1:1/none", name="test")
    guard = SchemaGuard(away)
    await guard.check()
    await away.close()
    assert guard.problem == "the database has not been reached yet"
    guard = SchemaGuard(database)
    await guard.wait()
    assert guard.problem is None
    await asyncio.to_thread(execute, database_url, "UPDATE alembic_version SET version_num = '0000'")
    with pytest.raises(SchemaMismatch):
        await guard.wait()
    assert guard.problem is not None


async def test_each_change_of_configuration_raises_its_topic_once_committed(database: Database) -> None:
    before = await _revisions(database)
    async with database.write() as session:
        session.add(Tenant(id="proj_a", name="a"))
        await session.flush()
        session.add(
            ApiKey(
                tenant_id="proj_a", id="key_a", name="k", public_id="p", secret_hmac=b"x" * 32, pepper_id="p1"
            )
        )
        session.add(
            ledger.Budget(
                id="b", scope="tenant", tenant_id="proj_a", period="monthly", limit_nanousd=1, is_hard=True
            )
        )
    changed = await _revisions(database)
    assert changed["tenancy"] == before["tenancy"] + 2
    assert changed["budget"] == before["budget"] + 1
    assert changed["routing"] == before["routing"]
    async with database.write() as session:
        await session.execute(text("UPDATE api_key SET last_used_at = now()"))
    assert await _revisions(database) == changed


async def test_a_route_cannot_be_published_without_all_three_prices(database: Database) -> None:
    async with database.write() as session:
        await session.execute(text("INSERT INTO pool (id, name, spec) VALUES ('pool_a', 'a', '{}')"))
    with pytest.raises(IntegrityError, match="lacks a price"):
        await _publish(database, components=("input", "output"))
    await _publish(database, components=("input", "cached_input", "output"))
    async with database.read() as session:
        assert (await session.execute(text("SELECT count(*) FROM route"))).scalar_one() == 1


async def _upgrade_to(url: str, revision: str) -> None:
    engine = owner_engine(url)
    async with engine.connect() as connection:
        await connection.run_sync(lambda sync: command.upgrade(_config(sync), revision))
        await connection.commit()
    await engine.dispose()


async def _publish(database: Database, components: tuple[str, ...]) -> None:
    async with database.write() as session:
        session.add(Route(id="route_a", served_model="m", pool_id="pool_a", sku="m"))
        valid_from = (await session.execute(text("SELECT now()"))).scalar_one()
        for component in components:
            session.add(Price(sku="m", component=component, valid_from=valid_from, nanousd_per_token=0))


async def _revisions(database: Database) -> dict[str, int]:
    async with database.read() as session:
        rows = await session.execute(text("SELECT topic, revision FROM config_revision"))
        return {row.topic: row.revision for row in rows}
