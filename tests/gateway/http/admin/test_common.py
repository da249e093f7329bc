"""Pages as OpenAI's lists have them, and changes that meet requests."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import asyncpg
from sqlalchemy import select

from gateway.db import Database, WriteSession
from gateway.http.admin.common import in_transaction, page_of, plain_arrays, unix
from gateway.tenancy.models import Tenant


def test_pages() -> None:
    rows = [{"id": name} for name in "abc"]
    page = page_of(rows, 2)
    assert (page["data"], page["has_more"]) == (rows[:2], True)
    assert (page["first_id"], page["last_id"]) == ("a", "b")
    assert page_of(rows, 3)["has_more"] is False
    empty = page_of([], 3)
    assert (empty["data"], empty["first_id"], empty["last_id"], empty["has_more"]) == ([], None, None, False)


def test_times() -> None:
    assert unix(datetime(1970, 1, 1, 0, 1, tzinfo=UTC)) == 60
    assert unix(None) is None


def test_arrays_in_brackets() -> None:
    assert plain_arrays(b"a[]=1&a%5b%5D=2&b=[]&c[]d=1") == b"a=1&a=2&b=[]&c[]d=1"
    assert plain_arrays(b"") == b""


async def test_a_deadlock_with_requests_runs_the_change_again(database_url: str) -> None:
    """The other side takes its second lock only when the change waits for it, and is the more patient one."""
    database = Database(database_url, name="test", pool_size=1)
    other = await asyncpg.connect(database_url)
    await other.execute("INSERT INTO tenant (id, name) VALUES ('a', 'a'), ('b', 'b')")
    await other.execute("SET deadlock_timeout = '1min'")
    tries = 0
    closing: asyncio.Task[None] | None = None

    async def lock_the_other() -> None:
        async with asyncio.timeout(60):
            while not await watcher.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await other.execute("SELECT FROM tenant WHERE id = 'a' FOR UPDATE")
        await transaction.rollback()

    async def change(session: WriteSession) -> str:
        nonlocal tries, closing
        tries += 1
        await lock(session, "a")
        closing = closing or asyncio.create_task(lock_the_other())
        await lock(session, "b")
        return "done"

    watcher = await asyncpg.connect(database_url)
    transaction = other.transaction()
    await transaction.start()
    await other.execute("SELECT FROM tenant WHERE id = 'b' FOR UPDATE")
    assert await in_transaction(database, change) == "done"
    assert closing is not None
    await closing
    assert tries >= 2  # more when the second try is quicker than the other side, which then waits once more
    for connection in (other, watcher):
        await connection.close()
    await database.close()


async def lock(session: WriteSession, name: str) -> None:
    await session.scalar(select(Tenant).where(Tenant.id == name).with_for_update())
