"""Migrations: from empty, one head, equal to the models, one runner at a time, and refused when too old or new."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

import gateway.ledger.models as ledger
from gateway.db import Base, Database, owner_engine
from gateway.migrate import SchemaGuard, SchemaMismatch, check_schema, head_revision, migrate, pending_changes
from gateway.routing.models import Price, Route
from gateway.tenancy.models import ApiKey, Tenant
from tests.conftest import execute

ROOT = Path(__file__).resolve().parents[2]
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


async def test_check_schema_accepts_ours_and_one_newer_only(database: Database, database_url: str) -> None:
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
