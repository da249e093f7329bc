"""The audit log on a real database: pages in order, tenants apart, append-only."""

import pytest
from sqlalchemy import delete, update
from sqlalchemy.exc import ProgrammingError

from gateway.audit.models import AuditLog
from gateway.audit.repository import Actor, AuditEntry, AuditFilter, AuditRecord, AuditRepository
from gateway.db import Database
from gateway.ids import IdSource, TenantId
from tests.fakes.clock import ManualClock

ACTOR = Actor("user", "user_1", "req_1", "192.0.2.1")


async def test_pages_walk_the_whole_log_newest_first(database_url: str) -> None:
    clock = ManualClock()
    repository = AuditRepository(clock, IdSource(clock))
    database = Database(database_url, name="test")
    async with database.write() as session:
        for number in range(25):
            if number % 5 == 0:
                clock.advance(1)  # five entries share each instant
            tenant = TenantId(f"proj_{number % 2}")
            await repository.append(session, ACTOR, AuditEntry("a", "k", str(number), tenant, {"n": number}))
    pages: list[AuditRecord] = []
    async with database.read() as session:
        place = None
        while page := (await repository.page(session, AuditFilter(older_than=place), limit=7))[:7]:
            pages += page
            place = (page[-1].occurred_at, page[-1].id)
        mine = await repository.page(session, AuditFilter(tenant_ids=["proj_1"]))
        assert await repository.place(session, pages[3].id) == (pages[3].occurred_at, pages[3].id)
        newer = AuditFilter(newer_than=(pages[9].occurred_at, pages[9].id))
        assert await repository.page(session, newer, limit=3) == pages[5:9], "the nearest, and one more"
    await database.close()
    assert [record.entry.resource_id for record in pages] == [str(n) for n in reversed(range(25))]
    assert pages[0].entry.details == {"n": 24}
    assert pages[0].actor == ACTOR
    assert {record.entry.tenant_id for record in mine} == {"proj_1"}
    assert len(mine) == 12


async def test_application_may_not_change_the_log(database_url: str) -> None:
    clock = ManualClock()
    database = Database(database_url, name="test")
    async with database.write() as session:
        await AuditRepository(clock, IdSource(clock)).append(session, ACTOR, AuditEntry("a", "k", "1", None))
    for statement in (delete(AuditLog), update(AuditLog).values(action="b")):
        with pytest.raises(ProgrammingError, match="permission denied"):
            async with database.write() as session:
                await session.execute(statement)
    await database.close()
