"""Spend alerts as rows: their lists keep to themselves and page in either direction."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from gateway.alerts.repository.thresholds import AlertScope, ThresholdRepository
from gateway.alerts.types import SpendAlertView
from gateway.db import ReadSession
from tests.gateway.books import Books, books

__all__ = ["books"]

AT = datetime(2026, 11, 1, tzinfo=UTC)
ALERT = SpendAlertView("alert_0", None, None, 100, None, ("a@x.org",), None, AT)
NAMES = [f"alert_{number}" for number in range(5)]


async def test_lists_of_scopes(books: Books) -> None:
    repository, budget = ThresholdRepository(), await books.add_budget(5)
    tenants = replace(ALERT, id="alert_t", tenant_id="proj_a")
    budgets = replace(tenants, id="alert_b", budget_id=budget, threshold_nanousd=None, threshold_percent=80)
    async with books.database.write() as session:
        for alert in (ALERT, tenants, budgets):
            await repository.insert(session, alert)
    scopes = (AlertScope(), AlertScope("proj_a"), AlertScope("proj_a", budget), AlertScope("proj_b"))
    async with books.database.read() as opened:
        session = ReadSession(opened)
        pages = [
            await repository.page(session, scope, after=None, before=None, ascending=True, limit=9)
            for scope in scopes
        ]
        assert pages == [[ALERT], [tenants], [budgets], []]
        assert await repository.alert(session, scopes[0], "alert_t") is None, "another list's"
        assert await repository.alert(session, scopes[1], "alert_t") == tenants


async def test_pages_in_either_direction(books: Books) -> None:
    repository, scope = ThresholdRepository(), AlertScope()
    async with books.database.write() as session:
        for name in NAMES:
            await repository.insert(session, replace(ALERT, id=name))
    async with books.database.read() as opened:

        async def ids(limit: int = 2, ascending: bool = True, **cursor: str) -> list[str]:
            found = await repository.page(
                ReadSession(opened),
                scope,
                after=cursor.get("after"),
                before=cursor.get("before"),
                ascending=ascending,
                limit=limit,
            )
            return [alert.id for alert in found]

        assert await ids() == NAMES[:2]
        assert await ids(after=NAMES[1]) == NAMES[2:4]
        assert await ids(before=NAMES[4]) == NAMES[2:4], "the two right ahead of it"
        assert await ids(ascending=False) == [NAMES[4], NAMES[3]]
        assert await ids(ascending=False, after=NAMES[3]) == [NAMES[2], NAMES[1]]
        assert await ids(ascending=False, before=NAMES[0]) == [NAMES[2], NAMES[1]]
        assert await ids(9, after=NAMES[0], before=NAMES[3]) == NAMES[1:3]


async def test_only_a_changed_threshold_makes_an_alert_younger(books: Books) -> None:
    repository, scope = ThresholdRepository(), AlertScope()
    async with books.database.write() as session:
        await repository.insert(session, ALERT)
    age = "SELECT updated_at FROM spend_alert"
    made = await books.value(age)
    told = replace(ALERT, recipients=("b@x.org",), subject_prefix="x")
    async with books.database.write() as session:
        assert await repository.locked(session, scope, ALERT.id) == ALERT
        await repository.update(session, ALERT, told)
    assert await books.value(age) == made
    async with books.database.write() as session:
        await repository.update(session, told, replace(told, threshold_nanousd=7))
    assert await books.value(age) > made
    async with books.database.write() as session:
        changed = await repository.locked(session, scope, ALERT.id)
        assert changed == replace(told, threshold_nanousd=7)
        await repository.delete(session, ALERT.id)
        assert await repository.locked(session, scope, ALERT.id) is None
