"""The first admin key: once, audited, and only once even when tried at the same time."""

import asyncio
import os

import pytest

from gateway.audit.repository import AuditRepository
from gateway.errors import Conflict
from gateway.ids import IdSource
from gateway.tenancy import IssuedKey
from gateway.tenancy.bootstrap import bootstrap
from tests.gateway.tenancy.support import PEPPERS, bearer, world_on


async def test_bootstrap_makes_one_admin_key_once(database_url: str) -> None:
    async with world_on(database_url) as world:
        ids = IdSource(world.clock)
        tries = (bootstrap(world.database, PEPPERS, world.clock, ids, os.urandom) for _ in range(4))
        done = await asyncio.gather(*tries, return_exceptions=True)
        keys = [one for one in done if isinstance(one, IssuedKey)]
        assert len(keys) == 1
        assert sum(isinstance(one, Conflict) for one in done) == 3
        with pytest.raises(Conflict):
            await bootstrap(world.database, PEPPERS, world.clock, ids, os.urandom)
        await world.feed.poll()
        who = await world.directory.authenticate_admin(bearer(keys[0]), None)
        async with world.database.read() as session:
            made, added = await AuditRepository(world.clock, ids).page(session)
    assert who.roles == {"owner"}
    assert (made.entry.action, made.entry.resource_id) == ("admin_api_key.created", keys[0].id)
    assert (added.entry.action, added.entry.resource_id) == ("user.added", who.user_id)
    assert {made.actor.kind, added.actor.kind} == {"system"}
