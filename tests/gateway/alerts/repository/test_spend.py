"""The guard: what has fired at a height fires again only above it. What is due is tested through the watch."""

from __future__ import annotations

from dataclasses import replace

from gateway.alerts.repository.spend import claim, due_budgets, due_months, period_kinds
from gateway.alerts.types import Due, Window
from tests.gateway.books import Books, books

__all__ = ["books"]

NOVEMBER = Window("monthly", "UTC", "2026-11", None, None)
DUE = Due(
    "budget.exhausted",
    "alert_a",
    NOVEMBER,
    "tenant",
    "proj_a",
    None,
    None,
    10,
    None,
    11,
    None,
    None,
    (),
    None,
)


async def test_a_height_is_claimed_once(books: Books) -> None:
    async def claimed(*due: Due) -> list[Due]:
        async with books.database.transaction() as connection:
            return await claim(connection, due)

    higher, december = (
        replace(DUE, threshold_nanousd=11),
        replace(DUE, window=replace(NOVEMBER, key="2026-12")),
    )
    assert await claimed(DUE) == [DUE]
    assert await claimed(DUE, december) == [december]
    assert await claimed(higher) == [higher]
    assert await claimed(DUE) == await claimed(higher) == []


async def test_nothing_is_due_where_nothing_is_watched(books: Books) -> None:
    async with books.database.transaction() as connection:
        assert await period_kinds(connection) == []
        assert await due_budgets(connection, [NOVEMBER]) == []
    await books.add_budget(5)
    await books.add_budget(5, period="daily", zone="Europe/Berlin")
    async with books.database.transaction() as connection:
        assert await period_kinds(connection) == [("daily", "Europe/Berlin"), ("monthly", "UTC")]
        assert await due_budgets(connection, [NOVEMBER]) == []
        assert await due_months(connection, NOVEMBER) == []
