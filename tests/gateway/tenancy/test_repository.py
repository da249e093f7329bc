"""What the repository itself promises: one row per limit scope, and no write over a taken public id."""

from dataclasses import replace

from gateway.ids import KeyId
from gateway.tenancy import LimitSet, ScopedLimits
from gateway.tenancy.repository import TenancyRepository
from tests.gateway.tenancy.support import world_on


async def test_second_limits_of_a_scope_replace_the_first(database_url: str) -> None:
    repository = TenancyRepository()
    async with world_on(database_url) as world:
        tenant_id = await world.tenant()
        key = await world.key(tenant_id)
        for limit in (5, 9):
            async with world.database.write() as session:
                for number, scope in enumerate(((None, None), (key.id, None), (None, "m"), (key.id, "m"))):
                    scoped = ScopedLimits(*scope, LimitSet(requests_per_min=limit))
                    id = f"rl_{limit}_{number}"
                    await repository.put_limits(session, tenant_id, id, scoped, world.clock.now())
        async with world.database.read() as session:
            found = await repository.limits_of_key(session, tenant_id, key.id)
    assert found == tuple(
        ScopedLimits(*scope, LimitSet(requests_per_min=9))
        for scope in ((None, None), (None, "m"), (key.id, None), (key.id, "m"))
    )


async def test_taken_public_id_is_not_written_over(database_url: str) -> None:
    repository = TenancyRepository()
    async with world_on(database_url) as world:
        tenant_id = await world.tenant()
        key = await world.key(tenant_id)
        async with world.database.write() as session:
            row = await repository.key(session, tenant_id, key.id)
            assert row is not None
            assert not await repository.insert_key(session, replace(row, id=KeyId("key_other")))
            assert await repository.key(session, tenant_id, KeyId("key_other")) is None
