"""Rows of episodes: one open per scope, pages, whose may be seen, and the ends of those of budgets."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from gateway.alerts.episodes import Episode
from gateway.alerts.repository.episodes import EpisodeReader, begin, resolve, resolve_spend, row_of
from tests.gateway.alerts.conftest import NOW, Bench


def episode(number: int, **fields: Any) -> Episode:
    values: dict[str, Any] = {
        "id": f"episode_{number}",
        "source": "key.expiring",
        "scope": f"scope_{number}",
        "severity": "ticket",
        "tenant_id": None,
        "values": {},
        "fired_at": NOW + timedelta(minutes=number),
    }
    return Episode(**(values | fields))


async def test_one_open_per_scope(bench: Bench) -> None:
    async with bench.database.transaction() as connection:
        assert await begin(connection, [row_of(episode(1), None)]) == {"episode_1"}
        assert await begin(connection, [row_of(episode(2, scope="scope_1"), None)]) == frozenset()
        assert await resolve(connection, ["episode_1", "episode_9"], NOW + timedelta(hours=1)) == {
            "episode_1"
        }
        assert await resolve(connection, ["episode_1"], NOW + timedelta(hours=1)) == frozenset()
        assert await begin(connection, [row_of(episode(3, scope="scope_1"), None)]) == {"episode_3"}


async def test_pages_and_whose_may_be_seen(bench: Bench) -> None:
    owners = [None, "proj_a", "proj_b", "proj_a", None]
    async with bench.database.transaction() as connection:
        await begin(connection, [row_of(episode(n, tenant_id=who), None) for n, who in enumerate(owners)])
        await resolve(connection, ["episode_3"], NOW + timedelta(hours=1))
    reader = EpisodeReader()
    async with bench.database.read() as session:

        async def ids(
            tenants: Any = None, after: str | None = None, limit: int = 10, **wanted: Any
        ) -> list[str]:
            asked = {"source": None, "is_open": None} | wanted
            rows = await reader.page(session, tenants, after=after, limit=limit, **asked)
            return [row.id.removeprefix("episode_") for row in rows]

        assert await ids() == list("43210")
        assert await ids(limit=2) == list("43")
        assert await ids(after="episode_3") == list("210")
        assert await ids(["proj_a"]) == list("31")
        assert await ids(["proj_a"], is_open=True) == ["1"]
        assert await ids(is_open=False) == ["3"]
        assert await ids(source="slo.burn_rate") == []
        assert await reader.episode(session, "episode_2", ["proj_a"]) is None
        assert (await reader.episode(session, "episode_2", None)) is not None


async def test_episodes_of_budgets_end_with_their_period_or_a_raised_limit(bench: Bench) -> None:
    budget = await bench.budget(100)
    await bench.alert("alert_a", budget_id=budget, threshold_percent=50)
    await bench.spend(budget, 60)
    await bench.watch.run_once()
    open_ = "SELECT count(*) FROM alert_episode WHERE resolved_at IS NULL"

    async def ended(at: Any) -> int:
        async with bench.database.transaction() as connection:
            return await resolve_spend(connection, at)

    rows = await bench.books.rows(
        "SELECT source, tenant_id, values ->> 'budget_id', announced_at FROM alert_episode"
    )
    assert [tuple(row) for row in rows] == [("budget.threshold_reached", "proj_a", budget, NOW)]
    assert await ended(NOW) == 0
    assert await ended(NOW + timedelta(days=11)) == 1
    assert await bench.books.value(open_) == 0
    await bench.spend(budget, 100)
    await bench.watch.run_once()
    assert await bench.books.value(open_) == 1
    await bench.books.run("UPDATE budget SET limit_nanousd = 500")
    assert await ended(NOW) == 1
