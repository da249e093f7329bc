"""Signing in, refreshing and leaving: on a real database, by the hand of a clock."""

from __future__ import annotations

import asyncio
import os

import pytest

from gateway.errors import InvalidValue, NotFound
from gateway.sessions import Grant, Place
from gateway.sessions.errors import LoginRefused, SessionOver, TooManyAttempts
from gateway.sessions.passwords import Passwords
from gateway.sessions.service import GRACE, IDLE, LASTS
from gateway.sessions.throttle import ACCOUNT_FREE, ADDRESS_FREE
from gateway.tenancy.people.service import AdminKeyOptions
from tests.gateway.sessions.conftest import HERE, OPERATOR, PASSWORD, Desk, ring

WRONG = "wrong and long enough"


async def refused(desk: Desk, token: str | None) -> None:
    with pytest.raises(SessionOver) as error:
        await desk.sessions.refresh(token or "", HERE)
    assert error.value.code == "session_ended"


async def is_good(desk: Desk, grant: Grant) -> bool:
    await desk.feed.poll()
    try:
        await desk.directory.authenticate(grant.access)
    except SessionOver:
        return False
    return True


async def test_the_right_pair_signs_in_and_is_audited(desk: Desk) -> None:
    user = await desk.user()
    grant = await desk.login(" ANN@example.com")
    assert (grant.standing.user.id, grant.standing.session.address) == (user.id, HERE.address)
    assert await is_good(desk, grant)
    action, actor, resource, details = (await desk.log())[-1]
    assert (action, actor, resource) == ("login.succeeded", user.id, user.id)
    assert details == {"session_id": grant.standing.session.id, "method": "password"}


async def test_every_wrong_pair_is_refused_alike(desk: Desk) -> None:
    """Unknown, without a password, deleted, wrong: the same words, and a row that holds nothing that was typed."""
    user, bare = await desk.user(), await desk.user("bare@example.com", password=None)
    gone = await desk.user("gone@example.com")
    async with desk.database.write() as session:
        await desk.people.create_admin_key(session, OPERATOR, "key", AdminKeyOptions("owner"))
        await desk.people.delete_user(session, OPERATOR, gone.id)
    said = set()
    for email, password in (
        ("ann@example.com", WRONG),
        ("nobody@example.com", PASSWORD),
        ("bare@example.com", PASSWORD),
        ("gone@example.com", PASSWORD),
        ("", PASSWORD),
    ):
        with pytest.raises(LoginRefused) as error:
            await desk.login(email, password)
        said.add(str(error.value))
    assert len(said) == 1
    failures = [row for row in await desk.log() if row[0] == "login.failed"]
    assert [row[2] for row in failures] == [user.id, "unknown", bare.id, "unknown", "unknown"]
    assert {str(row[3]) for row in failures} == {"{'after': {'error_code': 'invalid_login'}}"}


async def test_who_fails_too_often_waits_whether_there_is_an_account_or_not(desk: Desk) -> None:
    await desk.user()
    for email in ("ann@example.com", "nobody@example.com"):
        for _ in range(ACCOUNT_FREE):
            with pytest.raises(LoginRefused):
                await desk.login(email, WRONG)
        with pytest.raises(TooManyAttempts) as wait:
            await desk.login(email, PASSWORD)
        assert wait.value.retry_after_s is not None
        desk.clock.advance(wait.value.retry_after_s)
    assert (await desk.login()).refresh is not None, "waiting is enough, and success forgives"
    with pytest.raises(LoginRefused):
        await desk.login("ann@example.com", WRONG)


async def test_an_address_waits_too_and_one_good_account_does_not_free_it(desk: Desk) -> None:
    await desk.user()
    for number in range(ADDRESS_FREE):
        if number == ADDRESS_FREE // 2:
            await desk.login()
        with pytest.raises(LoginRefused):
            await desk.login(f"user{number}@example.com", WRONG)
    with pytest.raises(TooManyAttempts):
        await desk.login()
    elsewhere = await desk.sessions.login("ann@example.com", PASSWORD, Place("198.51.100.1", None))
    assert elsewhere.refresh is not None


async def test_many_attempts_at_once_are_counted_before_they_are_judged(desk: Desk) -> None:
    await desk.user()
    wrong = [desk.login("ann@example.com", f"{WRONG} {number}") for number in range(ACCOUNT_FREE * 2)]
    outcomes = [type(one) for one in await asyncio.gather(*wrong, return_exceptions=True)]
    assert outcomes.count(LoginRefused) == ACCOUNT_FREE
    assert outcomes.count(TooManyAttempts) == ACCOUNT_FREE


async def test_refreshing_gives_a_new_pair_and_keeps_the_session(desk: Desk) -> None:
    await desk.user()
    grant = await desk.login()
    for _ in range(3):
        desk.clock.advance(300)
        assert not await is_good(desk, grant), "an access token is short"
        after = await desk.sessions.refresh(grant.refresh or "", HERE)
        assert after.refresh != grant.refresh
        assert after.standing.session.id == grant.standing.session.id
        assert await is_good(desk, after)
        grant = after


async def test_parallel_tabs_refresh_with_the_same_token(desk: Desk) -> None:
    """Within the grace each gets the newest one, and the session lives on with it."""
    await desk.user()
    grant = await desk.login()
    tabs = await asyncio.gather(*(desk.sessions.refresh(grant.refresh or "", HERE) for _ in range(4)))
    assert len({tab.refresh for tab in tabs}) == 1
    desk.clock.advance(GRACE.total_seconds())
    late = await desk.sessions.refresh(grant.refresh or "", HERE)
    assert late.refresh == tabs[0].refresh
    assert (await desk.sessions.refresh(late.refresh or "", HERE)).refresh != late.refresh


async def test_a_token_that_comes_back_ends_the_family(desk: Desk) -> None:
    """Whoever has the newest one by then is signed out with the thief, and the log says why."""
    user = await desk.user()
    grant = await desk.login()
    after = await desk.sessions.refresh(grant.refresh or "", HERE)
    other = await desk.login()
    desk.clock.advance(GRACE.total_seconds() + 0.001)
    await refused(desk, grant.refresh)
    assert not await is_good(desk, after)
    await refused(desk, after.refresh)
    assert await is_good(desk, other), "another sign-in is another family"
    assert (await desk.log())[-1][2:] == (
        user.id,
        {"session_id": grant.standing.session.id, "reason": "reuse"},
    )


async def test_a_token_two_behind_is_reuse_even_within_the_grace(desk: Desk) -> None:
    await desk.user()
    grant = await desk.login()
    second = await desk.sessions.refresh(grant.refresh or "", HERE)
    third = await desk.sessions.refresh(second.refresh or "", HERE)
    await refused(desk, grant.refresh)
    await refused(desk, third.refresh)
    assert not await is_good(desk, third)


async def test_a_made_up_token_ends_nothing(desk: Desk) -> None:
    await desk.user()
    good = (await desk.login()).refresh or ""
    other = "A" if good[-2] != "A" else "B"
    for wrong in ("", "nonsense", good[:-2] + other + good[-1], good.replace(".0.", ".1.")):
        await refused(desk, wrong)
    stranger = Desk(desk.database, desk.clock, ring("x1"))
    await refused(stranger, good)
    assert (await desk.sessions.refresh(good, HERE)).refresh is not None


async def test_sessions_end_by_themselves(desk: Desk) -> None:
    await desk.user()
    grant = await desk.login()
    desk.clock.advance(IDLE.total_seconds())
    await refused(desk, grant.refresh)
    grant = await desk.login()
    step_s, passed_s = IDLE.total_seconds() / 2, 0.0
    while passed_s + step_s < LASTS.total_seconds():
        desk.clock.advance(step_s)
        passed_s += step_s
        grant = await desk.sessions.refresh(grant.refresh or "", HERE)
    desk.clock.advance(LASTS.total_seconds() - passed_s)
    await refused(desk, grant.refresh)
    assert not await is_good(desk, grant)


async def test_logout_ends_this_session_by_either_token(desk: Desk) -> None:
    await desk.user()
    first, second, third = [await desk.login() for _ in range(3)]
    await desk.sessions.logout(first.access, None, HERE)
    desk.clock.advance(600)  # the access token is of no other use by now
    await desk.sessions.logout(second.access, None, HERE)
    await desk.sessions.logout(None, third.refresh, HERE)
    for grant in (first, second, third):
        await refused(desk, grant.refresh)
    before = await desk.log()
    assert [row[3]["reason"] for row in before[-3:]] == ["logout"] * 3
    for access, refresh in ((None, None), ("x", "y"), (first.access, first.refresh)):
        await desk.sessions.logout(access, refresh, HERE)
    assert await desk.log() == before, "leaving twice is nothing new"


async def test_logout_everywhere_ends_all_of_ones_own(desk: Desk) -> None:
    user = await desk.user()
    await desk.user("bob@example.com")
    mine, bobs = [await desk.login(), await desk.login()], await desk.login("bob@example.com")
    assert await desk.sessions.logout_everywhere(user.id, OPERATOR) == 2
    assert [await is_good(desk, grant) for grant in (*mine, bobs)] == [False, False, True]


async def test_ones_own_sessions_are_listed_and_ended_one_by_one(desk: Desk) -> None:
    user, bob = await desk.user(), await desk.user("bob@example.com")
    grants = [await desk.login() for _ in range(3)]
    ids = [grant.standing.session.id for grant in grants]
    assert [row.id for row in await desk.sessions.sessions_of(user.id, None, 10)] == ids[::-1]
    assert [row.id for row in await desk.sessions.sessions_of(user.id, ids[2], 1)] == [ids[1]]
    with pytest.raises(NotFound):
        await desk.sessions.end(bob.id, ids[0], OPERATOR)
    await desk.sessions.end(user.id, ids[0], OPERATOR)
    with pytest.raises(NotFound):
        await desk.sessions.end(user.id, ids[0], OPERATOR)
    assert [row.id for row in await desk.sessions.sessions_of(user.id, None, 10)] == ids[:0:-1]
    assert [await is_good(desk, grant) for grant in grants] == [False, True, True]


async def test_a_changed_password_ends_the_other_sessions(desk: Desk) -> None:
    await desk.user()
    other, here = await desk.login(), await desk.login()
    fresh = "another long password"
    with pytest.raises(InvalidValue, match="current"):
        await desk.sessions.change_password(here.standing, WRONG, fresh, HERE)
    with pytest.raises(InvalidValue):
        await desk.sessions.change_password(here.standing, PASSWORD, "short", HERE)
    await desk.sessions.change_password(here.standing, PASSWORD, fresh, HERE)
    assert [await is_good(desk, grant) for grant in (other, here)] == [False, True]
    with pytest.raises(LoginRefused):
        await desk.login()
    assert (await desk.login(password=fresh)).refresh is not None


async def test_a_hash_of_older_parameters_is_made_anew(desk: Desk) -> None:
    user = await desk.user()
    desk.sessions.passwords = Passwords(os.urandom)
    await desk.login()
    async with desk.database.read() as session:
        stored = await desk.sessions.repository.password_of(session, user.id)
    assert stored is not None
    assert "m=65536" in stored


async def test_the_log_and_what_is_printed_hold_no_secret(desk: Desk) -> None:
    await desk.user()
    grant = await desk.login()
    await desk.sessions.refresh(grant.refresh or "", HERE)
    await desk.sessions.logout(grant.access, None, HERE)
    text = str(await desk.log())
    for secret in (PASSWORD, grant.access, grant.refresh or "none", "argon2"):
        assert secret not in text
        assert secret not in repr(grant)
