"""The last use of keys: noted by requests, written together, moving nothing that gateways watch."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import text

from gateway.db import Database
from gateway.ids import KeyId
from gateway.tenancy.last_used import LastUsed
from tests.fakes.clock import ManualClock
from tests.gateway.tenancy.support import bearer, world_on


async def test_the_last_use_is_written(database_url: str) -> None:
    async with world_on(database_url) as world:
        tenant_id = await world.tenant()
        used, unused = await world.key(tenant_id), await world.key(tenant_id)
        await world.feed.poll()
        before = world.feed.revision("tenancy")
        await world.directory.authenticate(bearer(used), None)
        world.clock.advance(5)
        await world.directory.authenticate(bearer(used), None)
        await world.directory.last_used.write()
        other = LastUsed(world.database, ManualClock(world.clock.now() - timedelta(hours=1)))
        other.note(used.id, is_admin=False)
        await other.write()  # a gateway that was slower
        await world.feed.poll()
        assert world.feed.revision("tenancy") == before, "no gateway reads anything again for this"
        async with world.database.read() as session:
            rows = dict((await session.execute(text("SELECT id, last_used_at FROM api_key"))).all())  # type: ignore[arg-type]  # pairs
    assert rows == {used.id: world.clock.now(), unused.id: None}


async def test_what_cannot_be_written_is_written_later(database_url: str) -> None:
    away = Database("postgresql://nobody@127.0.0.1:1/none", name="test")
    clock = ManualClock()
    last_used = LastUsed(away, clock)
    last_used.note(KeyId("key_1"), is_admin=True)
    await last_used.write()
    clock.advance(1)
    last_used.note(KeyId("key_2"), is_admin=True)
    assert set(last_used._admin_keys) == {"key_1", "key_2"}
    await away.close()
