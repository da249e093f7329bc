"""Changes and their rules on a real database; each change leaves one audit row in its own transaction."""

import asyncio
import contextlib
from datetime import timedelta

import pytest

from gateway.audit.repository import AuditFilter, AuditRepository
from gateway.errors import Conflict, InvalidApiKey, InvalidValue, NotFound
from gateway.ids import IdSource, KeyId, ServiceAccountId, TenantId
from gateway.settings import LimitSettings
from gateway.tenancy import KeyChange, KeyOptions, LimitSet, ScopedLimits, default_limits
from tests.gateway.tenancy.support import ADMIN, World, bearer, world_on


async def actions(world: World, tenant_id: TenantId | None = None) -> list[str]:
    audit = AuditRepository(world.clock, IdSource(world.clock))
    wanted = AuditFilter(tenant_ids=[tenant_id] if tenant_id is not None else None)
    async with world.database.read() as session:
        return [record.entry.action for record in await audit.page(session, wanted)]


async def test_every_change_is_audited_and_no_secret_is(database_url: str) -> None:
    async with world_on(database_url) as world:
        tenant_id = await world.tenant()
        async with world.database.write() as session:
            account = await world.service.create_service_account(session, ADMIN, tenant_id, "ci", "owner")
            key = await world.service.create_key(session, ADMIN, tenant_id, "k", account)
            await world.service.change_key(
                session, ADMIN, tenant_id, key.id, KeyChange(ip_allow_list=("192.0.2.0/24",))
            )
            await world.service.set_limits(
                session, ADMIN, tenant_id, ScopedLimits(key.id, "tiny", LimitSet(tokens_per_min=5))
            )
        rotated = await world.rotate(tenant_id, key, 60, "once")
        await world.revoke(tenant_id, rotated)
        await world.revoke(tenant_id, rotated)
        async with world.database.write() as session:
            await world.service.archive_tenant(session, ADMIN, tenant_id)
        assert sorted(await actions(world, tenant_id)) == [
            "api_key.created",
            "api_key.deleted",
            "api_key.rotated",
            "api_key.updated",
            "project.archived",
            "project.created",
            "rate_limit.updated",
            "service_account.created",
        ]
        async with world.database.read() as session:
            records = await AuditRepository(world.clock, IdSource(world.clock)).page(session)
        assert all(record.actor == ADMIN for record in records)
        for issued in (key, rotated):
            assert issued.value is not None
            assert issued.value[12:] not in str(records)


async def test_change_and_audit_row_stand_or_fall_together(database_url: str) -> None:
    async with world_on(database_url) as world:
        with contextlib.suppress(ZeroDivisionError):
            async with world.database.write() as session:
                await world.service.create_tenant(session, ADMIN, "never")
                raise ZeroDivisionError
        assert await actions(world) == []


async def test_rotation_keeps_both_for_the_grace_and_ends_to_the_instant(database_url: str) -> None:
    """Duty E30: both keys work until the grace is over, to the instant; the new one goes on."""
    async with world_on(database_url) as world:
        tenant_id = await world.tenant()
        old = await world.key(tenant_id, KeyOptions(ip_allow_list=("192.0.2.0/24",)))
        new = await world.rotate(tenant_id, old, grace_s=600, idempotency="a")
        await world.feed.poll()
        before = await world.directory.authenticate(bearer(old), "192.0.2.1")
        after = await world.directory.authenticate(bearer(new), "192.0.2.1")
        assert (before.key_id, after.key_id) == (old.id, new.id)
        assert before.quota_key_id == after.quota_key_id == old.id
        world.clock.advance(599.999)
        await world.feed.poll()
        await world.directory.authenticate(bearer(old), "192.0.2.1")
        world.clock.advance(0.001)
        await world.feed.poll()
        with pytest.raises(InvalidApiKey):
            await world.directory.authenticate(bearer(old), "192.0.2.1")
        await world.directory.authenticate(bearer(new), "192.0.2.1")


async def test_rotation_again_with_the_same_key_changes_nothing(database_url: str) -> None:
    """Duty E30: the same rotation asked for again is the same new key, and leaves the first one's grace alone."""
    async with world_on(database_url) as world:
        tenant_id = await world.tenant()
        old = await world.key(tenant_id)
        first = await world.rotate(tenant_id, old, 600, "a")
        world.clock.advance(10)
        again = await world.rotate(tenant_id, old, 0, "a")
        assert (again.id, again.value) == (first.id, None)
        await world.feed.poll()
        await world.directory.authenticate(bearer(old), None)  # the grace of the first one still holds
        assert (await world.rotate(tenant_id, old, 600, "b")).id != first.id
        assert (await actions(world)).count("api_key.rotated") == 2


async def test_rotation_that_comes_while_the_same_one_commits_finds_its_successor(database_url: str) -> None:
    async with world_on(database_url) as world:
        tenant_id = await world.tenant()
        old = await world.key(tenant_id)
        async with world.database.write() as session:
            first = await world.service.rotate_key(session, ADMIN, tenant_id, old.id, 60, "a")
            again = asyncio.create_task(world.rotate(tenant_id, old, 60, "a"))
            await asyncio.sleep(0.2)
            assert not again.done()
        assert ((await again).id, (await again).value) == (first.id, None)


async def test_limits_of_a_key_outlive_its_rotations(database_url: str) -> None:
    async with world_on(database_url) as world:
        tenant_id = await world.tenant()
        first = await world.key(tenant_id)
        second = await world.rotate(tenant_id, first, 60, "a")
        third = await world.rotate(tenant_id, second, 60, "a")
        scoped = ScopedLimits(third.id, None, LimitSet(requests_per_day=7))
        async with world.database.write() as session:
            await world.service.set_limits(session, ADMIN, tenant_id, scoped)
        await world.feed.poll()
        for key in (first, second, third):
            who = await world.directory.authenticate(bearer(key), None)
            assert who.quota_key_id == first.id
            assert who.limits[1] == ScopedLimits(first.id, None, LimitSet(requests_per_day=7))


async def test_dead_key_is_not_rotated_back_to_life(database_url: str) -> None:
    async with world_on(database_url) as world:
        tenant_id = await world.tenant()
        revoked = await world.key(tenant_id)
        await world.revoke(tenant_id, revoked)
        expired = await world.key(tenant_id, KeyOptions(expires_at=world.clock.now() + timedelta(seconds=1)))
        world.clock.advance(1)
        for key in (revoked, expired):
            with pytest.raises(Conflict):
                await world.rotate(tenant_id, key, 60, "a")


async def test_grace_never_extends_a_key(database_url: str) -> None:
    async with world_on(database_url) as world:
        tenant_id = await world.tenant()
        key = await world.key(tenant_id, KeyOptions(expires_at=world.clock.now() + timedelta(seconds=5)))
        new = await world.rotate(tenant_id, key, 600, "a")
        world.clock.advance(5)
        await world.feed.poll()
        for one in (key, new):
            with pytest.raises(InvalidApiKey):
                await world.directory.authenticate(bearer(one), None)


async def test_other_tenants_things_do_not_exist(database_url: str) -> None:
    async with world_on(database_url) as world:
        mine, theirs = await world.tenant("mine"), await world.tenant("theirs")
        key = await world.key(theirs)
        with pytest.raises(NotFound):
            await world.revoke(mine, key)
        with pytest.raises(NotFound):
            await world.rotate(mine, key, 60, "a")
        async with world.database.write() as session:
            account = await world.service.create_service_account(session, ADMIN, theirs, "ci")
        for tenant_id, account_id in ((mine, account), (mine, ServiceAccountId("svc_acct_none"))):
            with pytest.raises(NotFound):
                async with world.database.write() as session:
                    await world.service.create_key(session, ADMIN, tenant_id, "k", account_id)
        with pytest.raises(NotFound):
            async with world.database.write() as session:
                await world.service.set_limits(session, ADMIN, mine, ScopedLimits(key.id, None, LimitSet()))
        with pytest.raises(NotFound):
            await world.key(TenantId("proj_none"))
        await world.feed.poll()
        assert await world.directory.authenticate(bearer(key), None)


async def test_archived_tenant_gets_nothing_new(database_url: str) -> None:
    async with world_on(database_url) as world:
        tenant_id = await world.tenant()
        async with world.database.write() as session:
            await world.service.archive_tenant(session, ADMIN, tenant_id)
        with pytest.raises(Conflict):
            await world.key(tenant_id)


@pytest.mark.parametrize(
    ("options", "param"),
    [
        (KeyOptions(scopes=frozenset({"admin"})), "scopes"),
        (KeyOptions(ip_allow_list=("example.org",)), "ip_allow_list"),
    ],
)
async def test_bad_options_are_refused_by_name(database_url: str, options: KeyOptions, param: str) -> None:
    async with world_on(database_url) as world:
        tenant_id = await world.tenant()
        with pytest.raises(InvalidValue) as caught:
            await world.key(tenant_id, options)
        assert caught.value.param == param
        with pytest.raises(InvalidValue) as caught:
            await world.key(tenant_id, KeyOptions(expires_at=world.clock.now()))
        assert caught.value.param == "expires_at"


async def test_bad_names_graces_and_limits_are_refused(database_url: str) -> None:
    async with world_on(database_url) as world:
        tenant_id = await world.tenant()
        key = await world.key(tenant_id)
        for name in ("", "  ", "x" * 201):
            with pytest.raises(InvalidValue):
                await world.tenant(name)
        for grace_s in (-1, 31 * 86_400):
            with pytest.raises(InvalidValue):
                await world.rotate(tenant_id, key, grace_s, "a")
        with pytest.raises(InvalidValue):
            await world.rotate(tenant_id, key, 60, "")
        scoped = ScopedLimits(None, None, LimitSet(tokens_per_min=-1))
        async with world.database.write() as session:
            with pytest.raises(InvalidValue) as caught:
                await world.service.set_limits(session, ADMIN, tenant_id, scoped)
        assert caught.value.param == "tokens_per_min"


def test_key_is_in_no_repr() -> None:
    from gateway.tenancy import IssuedKey

    assert "secret" not in repr(IssuedKey(KeyId("key_1"), "secret", "tw-***"))


def test_settings_of_zero_are_no_limit() -> None:
    assert default_limits(LimitSettings(requests_per_minute=0, concurrent_requests=3)) == LimitSet(
        tokens_per_min=1_000_000, concurrent_requests=3
    )
