"""Schema migrations: one runner at a time, one head, and the check that a process makes before it serves.

Revisions are numbered ("0001", "0002", …), so a process can tell an older schema, which it refuses, from one
that is newer by a single step, which it tolerates while a rollout replaces it (expand, backfill, contract).
What the tables mean is not known here.
"""

import asyncio
from importlib.resources import files
from io import StringIO

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.db import DATABASE_ERRORS, Database, is_unavailable, owner_engine, reason
from gateway.obs.logging import get_logger
from gateway.settings import DatabaseSettings

__all__ = ["SchemaGuard", "SchemaMismatch", "check_schema", "head_revision", "migrate", "pending_changes"]

_ADVISORY_LOCK = 7_466_011_208_423_517
LOCK_WAIT_S = 120
LOCK_POLL_S = 0.2
CHECK_INTERVAL_S = 1.0

_log = get_logger(__name__)


class SchemaMismatch(Exception):
    """The database's schema is not one this version can work on."""


class SchemaGuard:
    """A process's view of the schema: `problem` is None once the schema is known to be right.

    A database that is away is waited for; an older schema, or one too new, is not worked on.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.problem: str | None = "the database has not been reached yet"
        self._has_told = False

    async def check(self) -> None:
        """Raises SchemaMismatch. Returns without an answer if the database is away."""
        try:
            await check_schema(self._database)
        except DATABASE_ERRORS as error:
            if not self._has_told:
                _log.warning("waiting for the database", error=reason(error))
                self._has_told = True
            return
        except SchemaMismatch as mismatch:
            self.problem = str(mismatch)
            raise
        self.problem = None

    async def wait(self) -> None:
        """Until the database answers and its schema is right; raises SchemaMismatch if it is not."""
        await self.check()
        while self.problem is not None:
            await asyncio.sleep(CHECK_INTERVAL_S)
            await self.check()


async def migrate(owner_url: str, options: DatabaseSettings | None = None) -> str:
    """Bring the schema to the head and return its revision. Waits for another runner, then finds nothing to do."""
    engine = owner_engine(owner_url, options)
    try:
        async with engine.connect() as connection:
            async with asyncio.timeout(LOCK_WAIT_S):
                await _lock(connection)
            await connection.run_sync(_upgrade)
            await connection.commit()
    finally:
        await engine.dispose()
    return head_revision()


async def _lock(connection: AsyncConnection) -> None:
    """A session's lock: it outlives the commit and falls with the connection. Asked for again and again, since a
    transaction that waited for it would be waited for in turn by an index that the holder builds concurrently."""
    statement = text("SELECT pg_try_advisory_lock(:key)")
    while not (await connection.execute(statement, {"key": _ADVISORY_LOCK})).scalar_one():
        await connection.commit()
        await asyncio.sleep(LOCK_POLL_S)
    await connection.commit()


async def check_schema(database: Database) -> str:
    """The schema's revision, or SchemaMismatch if it is older than ours or more than one newer."""
    try:
        async with database.transaction() as connection:
            found = (await connection.execute(text("SELECT version_num FROM alembic_version"))).scalar_one()
    except DATABASE_ERRORS as error:
        if is_unavailable(error):
            raise
        # No table, or not even the role that the first migration makes.
        raise SchemaMismatch("the database has no schema yet: run `tollway migrate`") from error
    ours, theirs = int(head_revision()), int(found)
    if theirs < ours:
        raise SchemaMismatch(f"the schema is {found}, this version needs {ours:04d}: run `tollway migrate`")
    if theirs > ours + 1:
        raise SchemaMismatch(f"the schema is {found}, this version knows {ours:04d}: upgrade this process")
    return str(found)


def head_revision() -> str:
    """The one head of `migrations/`; two heads are a mistake of the change that made the second."""
    heads = ScriptDirectory.from_config(_config()).get_heads()
    assert len(heads) == 1, f"migrations must have exactly one head, found {heads}"
    return heads[0]


async def pending_changes(owner_url: str) -> list[str]:
    """How the models differ from the migrated schema, as `alembic check` would say; empty when they agree."""
    engine = owner_engine(owner_url)
    try:
        async with engine.connect() as connection:
            return await connection.run_sync(_differences)
    finally:
        await engine.dispose()


def _config(connection: Connection | None = None) -> Config:
    config = Config(stdout=StringIO())  # `check` reports by exception; its chatter is not ours to print
    config.set_main_option("script_location", str(files("migrations")))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def _upgrade(connection: Connection) -> None:
    command.upgrade(_config(connection), "head")


def _differences(connection: Connection) -> list[str]:
    try:
        command.check(_config(connection))
    except CommandError as error:
        return [str(error)]
    return []
