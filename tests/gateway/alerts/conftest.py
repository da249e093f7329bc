"""A database with one tenant, the worker's own view of it, and a way to spend."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.alerts.spend import SpendWatch
from gateway.db import Database
from gateway.ids import IdSource
from gateway.obs.metrics import Metrics
from tests.fakes.clock import ManualClock
from tests.gateway.books import Books, books

__all__ = ["books"]

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
DUE_S = """(SELECT round(extract(epoch FROM d.next_attempt_at - a.started_at) - a.duration_ms / 1000.0)::int
    FROM delivery_attempt a WHERE a.delivery_id = d.id ORDER BY a.number DESC LIMIT 1)"""
"""SQL: when a delivery `d` is due, in seconds after its last attempt, by the database's clock alone."""


@dataclass
class Bench:
    """`watch` runs with the application's role; `books` is the owner's view."""

    books: Books
    database: Database
    clock: ManualClock
    watch: SpendWatch

    async def spend(self, budget_id: str, spent: int, period_key: str = "2026-11") -> None:
        """Now, so much is spent in all."""
        await self.books.run(
            "INSERT INTO budget_period (budget_id, period_key, spent_nanousd) VALUES (:budget, :key, :spent)"
            " ON CONFLICT (budget_id, period_key) DO UPDATE SET spent_nanousd = :spent",
            budget=budget_id,
            key=period_key,
            spent=spent,
        )

    async def budget(self, limit: int, **fields: Any) -> str:
        """As old as it needs to be for closed periods to count."""
        budget_id = await self.books.add_budget(limit, **fields)
        await self.books.run("UPDATE budget SET updated_at = '2026-01-01Z'")
        return budget_id

    async def alert(self, alert_id: str, **fields: Any) -> str:
        values = {
            "id": alert_id,
            "tenant_id": None,
            "budget_id": None,
            "threshold_nanousd": None,
            "threshold_percent": None,
            "recipients": ["ops@example.com"],
            "subject_prefix": None,
        } | fields
        names = ", ".join(values)
        await self.books.run(
            f"INSERT INTO spend_alert ({names}, updated_at)"
            f" VALUES ({', '.join(':' + name for name in values)}, '2026-01-01Z')",
            **values,
        )
        return alert_id

    async def fired(self) -> list[tuple[str, str, int]]:
        """(type, subject, threshold) of every record, oldest first, then by subject; each of them is in the outbox."""
        rows = await self.books.rows(
            "SELECT r.id, r.type, coalesce(r.payload ->> 'alert_id', r.payload ->> 'budget_id'),"
            " (r.payload ->> 'threshold_nanousd')::bigint FROM alert_record r"
            " ORDER BY r.occurred_at, r.type DESC, 3"
        )
        told = await self.books.rows("SELECT payload ->> 'record_id' FROM outbox WHERE topic = 'alert'")
        assert sorted(row[0] for row in rows) == sorted(row[0] for row in told)
        return [(row[1], row[2], row[3]) for row in rows]


@pytest.fixture
async def bench(books: Books, database_url: str) -> AsyncIterator[Bench]:
    database = Database(database_url, name="test-alerts", pool_size=4)
    clock = ManualClock(NOW)
    watch = SpendWatch(database, clock=clock, ids=IdSource(clock), metrics=Metrics())
    yield Bench(books, database, clock, watch)
    await database.close()
