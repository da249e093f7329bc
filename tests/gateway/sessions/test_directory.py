"""Whose session it is: from memory while nothing has changed, and no longer than the feed allows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from gateway.db import Database, ReadSession
from gateway.errors import ServiceUnavailable
from gateway.sessions import Place
from gateway.sessions.errors import SessionOver
from tests.gateway.sessions.conftest import OPERATOR, Desk
from tests.gateway.tenancy.support import service_for


async def test_what_ends_it_takes_effect_with_the_next_poll(desk: Desk) -> None:
    """A membership, a role, the session: each of them moves the feed."""
    user = await desk.user(role="member")
    async with desk.database.write() as session:
        tenant = await service_for(desk.clock).create_tenant(session, OPERATOR, "acme")
    grant = await desk.login()
    await desk.feed.poll()
    assert (await desk.directory.authenticate(grant.access)).projects == {}
    async with desk.database.write() as session:
        await desk.people.add_member(session, OPERATOR, tenant, user, "owner")
    await desk.feed.poll()
    assert (await desk.directory.authenticate(grant.access)).projects == {tenant: "owner"}
    async with desk.database.write() as session:
        await desk.people.repository.set_user(session, replace(user, role="viewer"))
    await desk.feed.poll()
    assert (await desk.directory.authenticate(grant.access)).user.role == "viewer"
    await desk.sessions.end(user.id, grant.standing.session.id, OPERATOR)
    await desk.feed.poll()
    with pytest.raises(SessionOver) as over:
        await desk.directory.authenticate(grant.access)
    assert over.value.code == "session_ended"


async def test_a_deleted_user_is_out(desk: Desk) -> None:
    user = await desk.user()
    grant = await desk.login()
    await desk.feed.poll()
    await desk.directory.authenticate(grant.access)
    async with desk.database.write() as session:
        await desk.people.repository.delete_user(session, user.id, desk.clock.now())
    await desk.feed.poll()
    with pytest.raises(SessionOver):
        await desk.directory.authenticate(grant.access)


class Counting(Database):
    reads = 0

    @asynccontextmanager
    async def read(self) -> AsyncIterator[ReadSession]:
        self.reads += 1
        async with super().read() as session:
            yield session


async def test_it_is_read_once_while_nothing_changes(desk: Desk, database_url: str) -> None:
    """Sessions that begin or are refreshed move nothing; a feed that is not fresh makes memory worth nothing."""
    await desk.user()
    grant = await desk.login()
    await desk.feed.poll()
    desk.directory._database = counting = Counting(database_url, name="test-counting", pool_size=1)
    for _ in range(5):
        await desk.directory.authenticate(grant.access)
    await desk.sessions.refresh((await desk.login()).refresh or "", Place(None, None))
    await desk.feed.poll()
    await desk.directory.authenticate(grant.access)
    assert counting.reads == 1
    desk.clock.advance(10)
    await desk.directory.authenticate(grant.access)
    assert counting.reads == 2
    await counting.close()


async def test_a_database_that_is_away_is_503_and_never_401(desk: Desk) -> None:
    await desk.user()
    grant = await desk.login()
    desk.directory._database = away = Database("postgresql://x@127.0.0.1:1/none", name="away", pool_size=1)
    with pytest.raises(ServiceUnavailable):
        await desk.directory.authenticate(grant.access)
    await away.close()
