"""Who administers: rules on a real database, one audit row per change, and never nobody who can do everything."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest

from gateway.audit.repository import AuditRepository
from gateway.errors import Conflict, InvalidApiKey, InvalidValue, IpNotAuthorized, NotFound
from gateway.ids import IdSource
from gateway.tenancy.bootstrap import bootstrap
from gateway.tenancy.people.service import AdminKeyOptions, PeopleService
from tests.gateway.tenancy.support import ADMIN, PEPPERS, World, bearer, world_on


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    async with world_on(database_url) as found:
        yield found


def people_of(world: World) -> PeopleService:
    ids = IdSource(world.clock)
    return PeopleService(AuditRepository(world.clock, ids), PEPPERS, world.clock, ids, os.urandom)


async def test_the_last_owner_stays(world: World) -> None:
    """Not by deleting the key, nor its user, nor by taking the role away; with a second owner each of them is fine."""
    people, ids = people_of(world), IdSource(world.clock)
    first = await bootstrap(world.database, PEPPERS, world.clock, ids, os.urandom)
    async with world.database.read() as session:
        [owner] = await people.repository.users(session, None, 10, ())
    for act in (
        lambda session: people.delete_admin_key(session, ADMIN, first.id),
        lambda session: people.delete_user(session, ADMIN, owner.id),
        lambda session: people.update_user(session, ADMIN, owner.id, "admin", None),
    ):
        with pytest.raises(Conflict, match="last"):
            async with world.database.write() as session:
                await act(session)
    async with world.database.write() as session:
        second = await people.create_admin_key(session, ADMIN, "second", AdminKeyOptions("owner"))
        await people.delete_user(session, ADMIN, owner.id)
    await world.feed.poll()
    assert (await world.directory.authenticate_admin(bearer(second), None)).roles == {"owner"}
    with pytest.raises(InvalidApiKey):
        await world.directory.authenticate_admin(bearer(first), None)


async def test_an_admin_key_has_an_expiry_and_an_allow_list(world: World) -> None:
    people = people_of(world)
    options = AdminKeyOptions("viewer", ip_allow_list=("192.0.2.0/24",))
    async with world.database.write() as session:
        key = await people.create_admin_key(session, ADMIN, "far", options)
    await world.feed.poll()
    assert await world.directory.authenticate_admin(bearer(key), "192.0.2.7")
    for elsewhere in ("198.51.100.1", None):
        with pytest.raises(IpNotAuthorized):
            await world.directory.authenticate_admin(bearer(key), elsewhere)
    async with world.database.write() as session:
        with pytest.raises(InvalidValue):
            await people.create_admin_key(session, ADMIN, "bad", AdminKeyOptions(ip_allow_list=("here",)))
        with pytest.raises(InvalidValue):
            await people.create_admin_key(session, ADMIN, "nobody's", AdminKeyOptions("member"))


async def test_an_invite_makes_a_user_once(world: World) -> None:
    people, tenant_id = people_of(world), await world.tenant()
    async with world.database.write() as session:
        with pytest.raises(InvalidValue):
            await people.invite(session, ADMIN, "a@example.com", "member", {"proj_none": "member"})
        invite = await people.invite(session, ADMIN, "A@example.com", "member", {tenant_id: "owner"})
        user = await people.accept_invite(session, ADMIN, invite.id, "Anna")
        with pytest.raises(Conflict):
            await people.accept_invite(session, ADMIN, invite.id, "Anna")
        with pytest.raises(Conflict):
            await people.invite(session, ADMIN, "a@EXAMPLE.com", "owner", {})
        late = await people.invite(session, ADMIN, "b@example.com", "viewer", {})
        world.clock.advance(8 * 86_400)
        with pytest.raises(Conflict):
            await people.accept_invite(session, ADMIN, late.id, "Ben")
        await people.delete_invite(session, ADMIN, late.id)
        with pytest.raises(NotFound):
            await people.delete_invite(session, ADMIN, late.id)
    async with world.database.read() as session:
        member = await people.repository.member(session, tenant_id, user.id)
    assert member is not None
    assert (member.user.email, member.role) == ("a@example.com", "owner")


async def test_changes_are_audited_with_before_and_after(world: World) -> None:
    people, tenant_id = people_of(world), await world.tenant()
    async with world.database.write() as session:
        user = await people.create_user(session, ADMIN, "a@example.com", "Anna", "viewer")
        await people.create_admin_key(session, ADMIN, "owner", AdminKeyOptions())
        await people.update_user(session, ADMIN, user.id, "billing", None)
        await people.update_user(session, ADMIN, user.id, "billing", None)
        await people.add_member(session, ADMIN, tenant_id, user, "member")
        await people.update_member(session, ADMIN, tenant_id, user.id, "owner")
        await people.remove_member(session, ADMIN, tenant_id, user.id)
    audit = AuditRepository(world.clock, IdSource(world.clock))
    async with world.database.read() as session:
        records = [record.entry for record in await audit.page(session)]
    changed = {entry.action: entry.details for entry in records}
    assert changed["user.updated"]["before"]["role"] == "viewer"
    assert changed["user.updated"]["after"]["role"] == "billing"
    assert changed["project_user.updated"] == {
        "before": {"project_role": "member"},
        "after": {"project_role": "owner"},
    }
    assert len([entry for entry in records if entry.action == "user.updated"]) == 1, (
        "what changes nothing is none"
    )
    assert {entry.tenant_id for entry in records if entry.action.startswith("project_user")} == {tenant_id}
