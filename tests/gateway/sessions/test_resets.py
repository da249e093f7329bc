"""A new password by a token: good once, in time, for the password that there was, and from nobody else."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from sqlalchemy import text

from gateway.errors import Conflict, InvalidValue, NotFound
from gateway.keyring import Keyring, Keys
from gateway.sessions.errors import LoginRefused, SessionOver, TooManyAttempts
from gateway.sessions.resets import CODE_LASTS, LINK_LASTS, PasswordResets
from gateway.sessions.throttle import ACCOUNT_FREE
from tests.gateway.sessions.conftest import HERE, OPERATOR, PASSWORD, Desk

NEW = "another battery staple"


async def linked(desk: Desk, user_id: str) -> str:
    async with desk.database.write() as session:
        return (await desk.resets.by_owner(session, OPERATOR, user_id)).token


async def test_a_link_gives_a_new_password_once_and_ends_every_session(desk: Desk) -> None:
    user = await desk.user()
    before = await desk.login()
    token = await linked(desk, user.id)
    assert (await desk.resets.find(token)).email == "ann@example.com"
    for bad in ("short", "ann@example.com"):
        with pytest.raises(InvalidValue):
            await desk.resets.accept(token, bad, HERE)
    grant = await desk.resets.accept(token, NEW, HERE)
    assert grant.standing.user.id == user.id
    await desk.feed.poll()
    await desk.directory.authenticate(grant.access)
    with pytest.raises(SessionOver):
        await desk.directory.authenticate(before.access)
    with pytest.raises(LoginRefused):
        await desk.login()
    await desk.login(password=NEW)
    with pytest.raises(NotFound):
        await desk.resets.accept(token, PASSWORD, HERE)
    log = await desk.log()
    assert ("user.password_link_made", OPERATOR.id, user.id) in [row[:3] for row in log]
    assert ("user.password_changed", user.id, user.id) in [row[:3] for row in log]
    assert token not in str(log)


async def test_of_two_who_use_it_at_once_one_does(desk: Desk) -> None:
    token = await linked(desk, (await desk.user()).id)
    both = (desk.resets.accept(token, f"{NEW} {name}", HERE) for name in ("one", "two"))
    outcomes = await asyncio.gather(*both, return_exceptions=True)
    assert sum(isinstance(one, NotFound) for one in outcomes) == 1, outcomes
    assert sum(not isinstance(one, BaseException) for one in outcomes) == 1, outcomes


@pytest.mark.parametrize("lasts", [LINK_LASTS, CODE_LASTS], ids=["link", "code"])
async def test_it_ends(desk: Desk, lasts: timedelta) -> None:
    user = await desk.user()
    code = await desk.resets.by_mail("Ann@example.com ")
    assert code is not None
    token = await linked(desk, user.id) if lasts is LINK_LASTS else code.token
    desk.clock.advance((lasts - timedelta(seconds=2)).total_seconds())
    await desk.resets.find(token)
    desk.clock.advance(3)
    with pytest.raises(NotFound):
        await desk.resets.find(token)


async def test_nothing_else_is_a_token(desk: Desk) -> None:
    ann, bob = await desk.user(), await desk.user("bob@example.com")
    token = await linked(desk, ann.id)
    user, ends, key, mac = token.split(".")
    later = str(int(ends) + 1)
    other = Keyring(Keys({"m1": b"somebody else's master key"}))
    forged = PasswordResets(
        desk.database, desk.people.repository, desk.sessions, desk.audit, other, desk.clock
    )
    async with desk.database.write() as session:
        foreign = (await forged.by_owner(session, OPERATOR, ann.id)).token
    wrong = [
        "",
        "tr-",
        ".".join((user, later, key, mac)),
        ".".join((f"tr-{bob.id}", ends, key, mac)),
        ".".join((user, ends, "none", mac)),
        token[:-1],
        foreign,
    ]
    for one in wrong:
        with pytest.raises(NotFound):
            await desk.resets.find(one)
    await desk.resets.find(token)


async def test_it_is_for_the_password_and_the_address_that_there_were(desk: Desk) -> None:
    ann = await desk.user()
    first, second = await linked(desk, ann.id), await linked(desk, ann.id)
    await desk.resets.accept(second, NEW, HERE)
    with pytest.raises(NotFound):
        await desk.resets.find(first)
    third = await linked(desk, ann.id)
    async with desk.database.transaction() as connection:
        await connection.execute(text("UPDATE organization_user SET email = 'else@example.com'"))
    with pytest.raises(NotFound):
        await desk.resets.find(third)


async def test_a_code_is_for_who_signs_in_with_a_password(desk: Desk) -> None:
    """An owner's link gives the first one; a mail alone does not."""
    user = await desk.user("sso@example.com", password=None)
    assert await desk.resets.by_mail("sso@example.com") is None
    assert await desk.resets.by_mail("nobody@example.com") is None
    await desk.resets.accept(await linked(desk, user.id), NEW, HERE)
    await desk.login("sso@example.com", NEW)
    with pytest.raises(NotFound):
        await linked(desk, "user_none")


async def test_who_has_no_address_gets_no_link(desk: Desk) -> None:
    user = await desk.user()
    async with desk.database.transaction() as connection:
        await connection.execute(text("UPDATE organization_user SET email = NULL"))
    with pytest.raises(Conflict):
        await linked(desk, user.id)


async def test_who_asks_too_often_waits_and_nobody_is_kept_from_signing_in(desk: Desk) -> None:
    await desk.user()
    for _ in range(ACCOUNT_FREE):
        await desk.resets.count_request("ann@example.com", HERE)
    with pytest.raises(TooManyAttempts):
        await desk.resets.count_request("Ann@example.com", HERE)
    await desk.login()
