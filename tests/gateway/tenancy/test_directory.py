"""Authentication on a real database: what is 401, what is 503, and how fast a revocation works."""

import asyncio
from datetime import timedelta

import pytest

from gateway.errors import InvalidApiKey, IpNotAuthorized, MissingCredentials, ServiceUnavailable
from gateway.ids import KeyId
from gateway.tenancy import KeyDirectory, KeyOptions, LimitSet, Peppers, ScopedLimits
from gateway.tenancy.bootstrap import bootstrap
from gateway.tenancy.directory import STALE_S
from gateway.tenancy.revision import FRESH_S
from tests.fakes.network import cable_to
from tests.gateway.tenancy.support import ADMIN, PEPPERS, World, bearer, world_on

UNKNOWN = "Bearer tw-zzzzzzzz-" + "s" * 43


async def test_key_gives_its_tenant_with_limits_and_weight(database_url: str) -> None:
    async with world_on(database_url) as world:
        tenant_id = await world.tenant()
        key = await world.key(tenant_id)
        await world.feed.poll()
        who = await world.directory.authenticate(bearer(key), "192.0.2.7")
    assert (who.tenant_id, who.key_id, who.quota_key_id) == (tenant_id, key.id, key.id)
    assert who.scopes == {"model.request"}
    assert who.limits == (ScopedLimits(None, None, LimitSet(requests_per_min=600)),)
    assert who.fairness_weight == 1


async def test_second_look_up_needs_no_database(database_url: str) -> None:
    async with cable_to(database_url) as (cable, url), world_on(url) as world:
        key = await world.key(await world.tenant())
        await world.feed.poll()
        await world.directory.authenticate(bearer(key), None)
        await cable.cut()
        await world.directory.authenticate(bearer(key), None)
        assert (world.lookups("loaded"), world.lookups("hit"), world.lookups("stale")) == (1, 1, 0)


@pytest.mark.parametrize("header", [None, "Basic abc"])
async def test_no_credentials(database_url: str, header: str | None) -> None:
    async with world_on(database_url) as world:
        with pytest.raises(MissingCredentials):
            await world.directory.authenticate(header, None)


async def test_unknown_key_and_wrong_secret_look_the_same(database_url: str) -> None:
    async with world_on(database_url) as world:
        key = await world.key(await world.tenant())
        await world.feed.poll()
        wrong = bearer(key)[:-43] + "x" * 43
        for header in (UNKNOWN, wrong, UNKNOWN, wrong):
            with pytest.raises(InvalidApiKey) as caught:
                await world.directory.authenticate(header, None)
            assert "***" in caught.value.message
            assert "x" * 8 not in caught.value.message


async def test_revocation_works_on_two_gateways_after_their_next_poll(database_url: str) -> None:
    """Duty E31: a revocation works on all replicas after one poll of the feed."""
    async with world_on(database_url) as first, world_on(database_url) as second:
        tenant_id = await first.tenant()
        key = await first.key(tenant_id)
        for world in (first, second):
            await world.feed.poll()
            await world.directory.authenticate(bearer(key), None)
        await first.revoke(tenant_id, key)
        for world in (first, second):
            world.clock.advance(1.0)  # the interval of the polls: the bound of 2 s holds with one to spare
            await world.feed.poll()
            with pytest.raises(InvalidApiKey):
                await world.directory.authenticate(bearer(key), None)


async def test_change_that_commits_during_the_look_up_is_not_missed(database_url: str) -> None:
    """An entry is as old as the revision that was known before its row was read."""
    async with world_on(database_url) as world:
        tenant_id = await world.tenant()
        key = await world.key(tenant_id)
        await world.feed.poll()
        await world.revoke(tenant_id, key)  # committed, and not yet polled
        with pytest.raises(InvalidApiKey):
            await world.directory.authenticate(bearer(key), None)
        other = await world.key(tenant_id)
        await world.directory.authenticate(bearer(other), None)
        await world.revoke(tenant_id, other)
        await world.feed.poll()
        with pytest.raises(InvalidApiKey):
            await world.directory.authenticate(bearer(other), None)


async def test_expiry_is_exact(database_url: str) -> None:
    async with world_on(database_url) as world:
        options = KeyOptions(expires_at=world.clock.now() + timedelta(seconds=1))
        key = await world.key(await world.tenant(), options)
        await world.feed.poll()
        await world.directory.authenticate(bearer(key), None)
        world.clock.advance(0.999999)
        await world.directory.authenticate(bearer(key), None)
        world.clock.advance(0.000001)
        with pytest.raises(InvalidApiKey):
            await world.directory.authenticate(bearer(key), None)


async def test_archived_tenant_and_deleted_account_have_no_keys(database_url: str) -> None:
    async with world_on(database_url) as world:
        tenant_id = await world.tenant()
        key = await world.key(tenant_id)
        await world.feed.poll()
        await world.directory.authenticate(bearer(key), None)
        async with world.database.write() as session:
            await world.service.archive_tenant(session, ADMIN, tenant_id)
        await world.feed.poll()
        with pytest.raises(InvalidApiKey):
            await world.directory.authenticate(bearer(key), None)


async def test_ip_allow_list(database_url: str) -> None:
    async with world_on(database_url) as world:
        key = await world.key(await world.tenant(), KeyOptions(ip_allow_list=("203.0.113.0/24",)))
        await world.feed.poll()
        await world.directory.authenticate(bearer(key), "203.0.113.5")
        for address in ("203.0.114.5", None):
            with pytest.raises(IpNotAuthorized):
                await world.directory.authenticate(bearer(key), address)


async def test_outage_serves_known_keys_for_a_while_and_never_says_401(database_url: str) -> None:
    """Duty C21: an error of the database never becomes 401; known keys are served for a stated time."""
    async with cable_to(database_url) as (cable, url), world_on(url) as world:
        tenant_id = await world.tenant()
        key, unseen = await world.key(tenant_id), await world.key(tenant_id)
        await world.feed.poll()
        await world.directory.authenticate(bearer(key), None)
        with pytest.raises(InvalidApiKey):
            await world.directory.authenticate(UNKNOWN, None)
        await cable.cut()
        with pytest.raises(ServiceUnavailable):  # still fresh, but not in memory
            await world.directory.authenticate(bearer(unseen), None)
        world.clock.advance(STALE_S)
        await world.feed.poll()
        assert not world.feed.fresh
        assert (await world.directory.authenticate(bearer(key), None)).tenant_id == tenant_id
        for header in (bearer(unseen), UNKNOWN):
            with pytest.raises(ServiceUnavailable) as caught:
                await world.directory.authenticate(header, None)
            assert caught.value.response_headers()["retry-after"] == "1"
        world.clock.advance(0.001)
        with pytest.raises(ServiceUnavailable):
            await world.directory.authenticate(bearer(key), None)
        await cable.join()
        await world.feed.poll()
        await world.directory.authenticate(bearer(key), None)
        await world.directory.authenticate(bearer(unseen), None)


async def test_a_missed_poll_alone_refuses_nobody(database_url: str) -> None:
    async with world_on(database_url) as world:
        key = await world.key(await world.tenant())
        await world.feed.poll()
        world.clock.advance(FRESH_S + 1)
        assert not world.feed.fresh
        await world.directory.authenticate(bearer(key), None)  # never seen, but the database answers
        assert world.lookups("loaded") == 1
        with pytest.raises(InvalidApiKey):
            await world.directory.authenticate(UNKNOWN, None)


async def test_known_key_that_must_be_read_again_is_served_stale_while_it_cannot(database_url: str) -> None:
    async with (
        cable_to(database_url) as (cable, url),
        world_on(url) as world,
        world_on(database_url) as other,
    ):
        key = await world.key(await world.tenant())
        await world.feed.poll()
        await world.directory.authenticate(bearer(key), None)
        await other.tenant("another")
        await world.feed.poll()  # the revision has moved; then the database goes
        await cable.cut()
        await world.directory.authenticate(bearer(key), None)
        assert world.lookups("stale") == 1


async def test_before_the_first_poll_nothing_is_401(database_url: str) -> None:
    async with world_on(database_url) as world:
        key = await world.key(await world.tenant())
        for header in (bearer(key), UNKNOWN):
            with pytest.raises(ServiceUnavailable):
                await world.directory.authenticate(header, None)


async def test_new_key_works_although_its_absence_was_remembered(database_url: str) -> None:
    async with world_on(database_url) as world:
        tenant_id = await world.tenant()
        await world.feed.poll()
        with pytest.raises(InvalidApiKey):
            await world.directory.authenticate(UNKNOWN, None)
        key = await world.key(tenant_id)
        await world.feed.poll()
        await world.directory.authenticate(bearer(key), None)


async def test_memory_is_bounded_for_known_and_unknown_keys_apart(database_url: str) -> None:
    async with world_on(database_url) as world:
        directory = KeyDirectory(
            world.database,
            world.feed,
            PEPPERS,
            world.clock,
            world.metrics,
            known_max=2,
            unknown_max=3,
            load_timeout_s=world.patience_s,
        )
        tenant_id = await world.tenant()
        keys = [await world.key(tenant_id) for _ in range(4)]
        await world.feed.poll()
        for key in keys:
            await directory.authenticate(bearer(key), None)
        for letter in "abcdef":
            with pytest.raises(InvalidApiKey):
                await directory.authenticate(f"Bearer tw-{letter * 8}-" + "s" * 43, None)
        await directory.authenticate(bearer(keys[3]), None)
        assert (world.lookups("loaded"), world.lookups("hit")) == (4, 1)
        await directory.authenticate(bearer(keys[0]), None)
        assert (world.lookups("loaded"), world.lookups("hit")) == (5, 1)
        assert (len(directory._tenants._known), len(directory._tenants._unknown)) == (2, 3)


async def test_requests_that_wait_for_one_key_share_its_look_up(database_url: str) -> None:
    async with world_on(database_url) as world:
        key = await world.key(await world.tenant())
        await world.feed.poll()
        reads: list[str] = []
        read = world.directory._tenants._read

        async def counted(public_id: str):  # type: ignore[no-untyped-def]  # wraps the real one
            reads.append(public_id)
            return await read(public_id)

        world.directory._tenants._read = counted
        first = asyncio.create_task(world.directory.authenticate(bearer(key), None))
        await asyncio.sleep(0)
        others = [asyncio.create_task(world.directory.authenticate(bearer(key), None)) for _ in range(9)]
        await asyncio.sleep(0)
        first.cancel()
        done = await asyncio.gather(first, *others, return_exceptions=True)
        assert isinstance(done[0], asyncio.CancelledError)
        assert len({who.key_id for who in done[1:]}) == 1
        assert len(reads) == 1


async def test_rotated_pepper_keeps_old_keys_and_an_unknown_pepper_does_not(database_url: str) -> None:
    async with world_on(database_url) as world:
        key = await world.key(await world.tenant())
        await world.feed.poll()
        kept = Peppers.of(p2=b"the next pepper!", p1=b"a pepper for the tests")
        lost = Peppers.of(p2=b"the next pepper!")
        with pytest.raises(InvalidApiKey):
            await _directory(world, lost).authenticate(bearer(key), None)
        directory = _directory(world, kept)
        assert await directory.authenticate(bearer(key), None)
        await directory.close()


async def test_admin_key_and_tenant_key_open_their_own_door_only(database_url: str) -> None:
    async with world_on(database_url) as world:
        tenant_key = await world.key(await world.tenant())
        admin = await bootstrap(world.database, PEPPERS, world.clock, world.service._ids, bytes_of)
        await world.feed.poll()
        who = await world.directory.authenticate_admin(bearer(admin), None)
        assert (who.key_id, who.roles) == (admin.id, {"owner"})
        with pytest.raises(InvalidApiKey):
            await world.directory.authenticate(bearer(admin), None)
        with pytest.raises(InvalidApiKey):
            await world.directory.authenticate_admin(bearer(tenant_key), None)


async def test_freshness_and_poll_interval_leave_room_for_the_bound() -> None:
    assert FRESH_S <= 2.0


def bytes_of(size: int) -> bytes:
    return bytes(range(size))


def _directory(world: World, peppers: Peppers) -> KeyDirectory:
    return KeyDirectory(
        world.database, world.feed, peppers, world.clock, world.metrics, load_timeout_s=world.patience_s
    )


async def test_work_that_a_key_began_goes_on_under_what_it_was_rotated_into(database_url: str) -> None:
    async with world_on(database_url) as world:
        tenant_id = await world.tenant()
        first = await world.key(tenant_id)
        other = await world.tenant("other")

        async def standing() -> KeyId | None:
            found = await world.directory.standing_for(tenant_id, first.id)
            return found.key_id if found is not None else None

        assert await standing() == first.id
        assert await world.directory.standing_for(other, first.id) is None
        world.clock.advance(1)
        second = await world.rotate(tenant_id, first, 60, "once")
        world.clock.advance(1)
        third = await world.rotate(tenant_id, second, 60, "twice")
        assert await standing() == third.id
        found = await world.directory.standing_for(tenant_id, first.id)
        assert found is not None
        assert found.quota_key_id == first.id
        await world.revoke(tenant_id, third)
        assert await standing() == second.id
        world.clock.advance(61)  # the grace of both older ones
        assert await standing() is None
        fourth = await world.key(tenant_id)
        assert await world.directory.standing_for(tenant_id, fourth.id) is not None
        async with world.database.write() as session:
            await world.service.archive_tenant(session, ADMIN, tenant_id)
        assert await world.directory.standing_for(tenant_id, fourth.id) is None
