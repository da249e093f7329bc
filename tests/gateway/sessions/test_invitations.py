"""Links of invites: good once, for a week, and only the newest."""

from __future__ import annotations

import asyncio

import pytest

from gateway.errors import Conflict, InvalidValue, NotFound
from gateway.sessions.errors import SessionOver
from gateway.tenancy.people.service import INVITE_DAYS
from tests.gateway.sessions.conftest import HERE, OPERATOR, PASSWORD, Desk
from tests.gateway.tenancy.support import service_for


async def invited(desk: Desk, email: str = "new@example.com") -> tuple[str, str]:
    """The invite's id and its link's token."""
    async with desk.database.write() as session:
        invite = await desk.people.invite(session, OPERATOR, email, "viewer", {})
        return invite.id, await desk.invitations.new_token(session, OPERATOR, invite.id)


async def test_accepting_makes_the_user_and_signs_in_once(desk: Desk) -> None:
    async with desk.database.write() as session:
        tenant = await service_for(desk.clock).create_tenant(session, OPERATOR, "acme")
        invite = await desk.people.invite(session, OPERATOR, "New@example.com", "member", {tenant: "owner"})
        token = await desk.invitations.new_token(session, OPERATOR, invite.id)
    assert (await desk.invitations.find(token)).email == "new@example.com"
    for bad in ("short", "new@example.com"):
        with pytest.raises(InvalidValue):
            await desk.invitations.accept(token, "New", bad, HERE)
    grant = await desk.invitations.accept(token, "New", PASSWORD, HERE)
    assert (grant.standing.user.role, grant.standing.projects) == ("member", {tenant: "owner"})
    assert (await desk.login("new@example.com")).standing.user.id == grant.standing.user.id
    for use in (desk.invitations.find(token), desk.invitations.accept(token, "New", PASSWORD, HERE)):
        with pytest.raises(NotFound):
            await use
    assert token not in str(await desk.log())


async def test_of_two_who_accept_at_once_one_does(desk: Desk) -> None:
    _, token = await invited(desk)
    both = (desk.invitations.accept(token, name, PASSWORD, HERE) for name in ("one", "two"))
    outcomes = await asyncio.gather(*both, return_exceptions=True)
    assert sum(isinstance(one, Conflict | NotFound) for one in outcomes) == 1
    [grant] = [one for one in outcomes if not isinstance(one, BaseException)]
    await desk.feed.poll()
    try:
        await desk.directory.authenticate(grant.access)
    except SessionOver:
        pytest.fail("whoever was first is signed in")


async def test_only_the_newest_link_and_only_in_time(desk: Desk) -> None:
    invite_id, first = await invited(desk)
    async with desk.database.write() as session:
        second = await desk.invitations.new_token(session, OPERATOR, invite_id)
    for wrong in (first, "", "ti-" + "x" * 43, second[:-1]):
        with pytest.raises(NotFound):
            await desk.invitations.find(wrong)
    await desk.invitations.find(second)
    desk.clock.advance(INVITE_DAYS * 86_400)
    with pytest.raises(NotFound):
        await desk.invitations.find(second)
    async with desk.database.write() as session:
        with pytest.raises(Conflict):
            await desk.invitations.new_token(session, OPERATOR, invite_id)
        with pytest.raises(NotFound):
            await desk.invitations.new_token(session, OPERATOR, "invite_none")
