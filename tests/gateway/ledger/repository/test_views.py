"""Budgets as the admin API sets them. The list of events is tested through it (http/admin/test_usage.py)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime

import asyncpg
import pytest

from gateway.db import Database
from gateway.ledger.repository.views import BudgetView, EventFilter, LedgerViews

BUDGET = BudgetView("b1", "tenant", "t", None, "monthly", "UTC", 100, True, datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    connection = await asyncpg.connect(database_url)
    await connection.execute("INSERT INTO tenant (id, name) VALUES ('t', 't')")
    await connection.close()
    opened = Database(database_url, name="test", pool_size=1)
    yield opened
    await opened.close()


async def test_a_second_budget_of_a_scope_changes_the_first(database: Database) -> None:
    views = LedgerViews()
    async with database.write() as session:
        assert await views.put_budget(session, BUDGET) == "b1"
        assert (
            await views.put_budget(session, replace(BUDGET, id="b2", limit_nanousd=5, is_hard=False)) == "b1"
        )
        assert await views.put_budget(session, replace(BUDGET, id="b3", period="daily")) == "b3"
        organization = replace(BUDGET, id="b4", scope="organization", tenant_id=None)
        assert await views.put_budget(session, organization) == "b4"
    async with database.read() as session:
        found = {view.id: (view.limit_nanousd, view.is_hard) for view in await views.budgets(session, "t")}
        assert found == {"b1": (5, False), "b3": (100, True)}
        assert len(await views.budgets(session, None)) == 3
        assert await views.spent(session, "b1") == {}
        assert await views.events(session, EventFilter(tenant_id="t"), None, 5) == []
