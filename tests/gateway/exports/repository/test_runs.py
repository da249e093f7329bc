"""Rows of runs: leases and pages."""

from __future__ import annotations

from datetime import timedelta

from gateway.db import Database
from gateway.exports.jobs import LEASE
from gateway.exports.repository import runs
from tests.gateway.exports.conftest import books, database, ledger
from tests.gateway.exports.ledger import Ledger, spec

__all__ = ["books", "database", "ledger"]


async def test_runs_are_claimed_by_destination_and_listed_by_id(database: Database, ledger: Ledger) -> None:
    async with database.write() as session:
        for number in range(5):
            tenant = "proj_a" if number % 2 else None
            await runs.request(session, f"export_{number}", spec(tenant_id=tenant), "here", "test")
        assert await runs.claim(session, "elsewhere", LEASE) is None
    async with database.write() as session:
        claimed = await runs.claim(session, "here", LEASE)
        assert claimed is not None
        assert runs.spec_of(claimed) == spec(tenant_id=claimed.tenant_id)
        await runs.renew(session, claimed.id, timedelta(hours=1))
    left = await ledger.books.value(
        "SELECT next_attempt_at > now() + interval '55 minutes' FROM export_run WHERE status = 'running'"
    )
    assert left is True
    async with database.read() as session:
        assert [run.id for run in await runs.page(session, None, "export_4", 2)] == ["export_3", "export_2"]
        assert [run.id for run in await runs.page(session, "proj_a", None, 9)] == ["export_3", "export_1"]
        assert await runs.get(session, "export_9") is None
        assert await runs.tenant_exists(session, "proj_a")
        assert not await runs.tenant_exists(session, "../proj_a")


async def test_a_lost_lease_changes_nothing(database: Database, ledger: Ledger) -> None:
    """The run ended otherwise in the meantime: a late failure does not make it a failed one."""
    async with database.write() as session:
        await runs.request(session, "export_1", spec(), "here", "test")
        run = await runs.take(session, "export_2", spec(), "here", "test", LEASE)
        assert run.id == "export_1"
        await runs.finish(session, run.id, {"rows": 0})
        assert await runs.delay(session, run.id, "too late", is_final=True) == "lost"
    assert await ledger.books.value("SELECT status FROM export_run") == "succeeded"
