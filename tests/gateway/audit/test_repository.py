"""The audit log on a real database: pages in order, tenants apart, append-only."""

import pytest
from sqlalchemy import delete, update
from sqlalchemy.exc import ProgrammingError

from gateway.audit.models import AuditLog
from gateway.audit.repository import Actor, AuditEntry, AuditRecord, AuditRepository
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
        while page := await repository.page(session, before=pages[-1] if pages else None, limit=7):
            pages += page
        mine = await repository.page(session, tenant_id=TenantId("proj_1"))
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
