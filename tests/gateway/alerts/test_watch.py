"""Episodes in the database: announced with their change, once, whoever watches and whatever dies."""

from __future__ import annotations

import asyncio
import signal as signals
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import ProgrammingError

from gateway.alerts.episodes import Level, Signal
from gateway.alerts.repository.silences import Silence, SilenceRepository
from gateway.alerts.watch import EpisodeWatch
from gateway.ids import IdSource
from gateway.obs.metrics import Metrics
from tests.gateway.alerts.conftest import NOW, Bench
from tests.gateway.alerts.test_delivery_death import start_worker

KILLS = 2
FIGURES: dict[str, dict[str, Any]] = {
    "slo.burn_rate": {"sli": "availability", "model": "m", "burn": {"1h": 20.0}, "budget_left": 0.5},
    "replica.down": {"replica_id": "replica_1", "pool": "a"},
}
TIMEOUT_S = 300


class Scene:
    """What the source sees, as the test sets it."""

    def __init__(self, bench: Bench, source: str = "slo.burn_rate") -> None:
        self.bench = bench
        self.seen: Sequence[Signal] | None = []
        self.source = source

    def watch(self) -> EpisodeWatch:
        bench = self.bench

        async def look() -> Sequence[Signal] | None:
            return self.seen

        return EpisodeWatch(
            bench.database, self.source, look, clock=bench.clock, ids=IdSource(bench.clock), metrics=Metrics()
        )

    def sees(self, level: Level, tenant_id: str | None = "proj_a", **values: Any) -> None:
        figures = {**FIGURES[self.source], **values}
        self.seen = [Signal("scope_a", "page", level, figures, tenant_id)]

    async def told(self) -> list[tuple[str, str | None, str]]:
        """(type, tenant, state) of what was announced, each with its outbox row."""
        rows = await self.bench.books.rows(
            "SELECT r.type, r.tenant_id, r.payload ->> 'state' FROM alert_record r"
            " JOIN outbox o ON o.payload ->> 'record_id' = r.id ORDER BY r.occurred_at, r.id"
        )
        return [tuple(row) for row in rows]


async def test_it_fires_once_and_resolves_once_whoever_watches(bench: Bench) -> None:
    scene = Scene(bench)
    watches = [scene.watch() for _ in range(3)]

    async def minutes(number: int, level: Level, **values: Any) -> None:
        for _ in range(number):
            bench.clock.advance(60)
            scene.sees(level, **values)
            await asyncio.gather(*(watch.run_once() for watch in watches))

    await minutes(3, "quiet")
    assert await scene.told() == []
    await minutes(4, "firing", budget_left=0.1)
    await minutes(3, "quiet")
    await minutes(1, "between", budget_left=0.2)
    await minutes(5, "quiet")
    assert await scene.told() == [("slo.burn_rate.firing", "proj_a", "firing")]
    await minutes(3, "quiet")
    assert await scene.told() == [
        ("slo.burn_rate.firing", "proj_a", "firing"),
        ("slo.burn_rate.resolved", "proj_a", "resolved"),
    ]
    (row,) = await bench.books.rows("SELECT * FROM alert_episode")
    assert (row.source, row.scope, row.severity, row.tenant_id) == (
        "slo.burn_rate",
        "scope_a",
        "page",
        "proj_a",
    )
    assert (row.values["budget_left"], row.last_values["budget_left"]) == (0.1, 0.5)
    assert (row.fired_at, row.resolved_at - row.fired_at) == (
        NOW + timedelta(minutes=4),
        timedelta(minutes=13),
    )
    told = await bench.books.rows("SELECT payload FROM alert_record ORDER BY occurred_at, id")
    assert {one.payload["incident"] for one in told} == {row.id}
    assert [one.payload["summary"][:5] for one in told] == ["Error", "Over:"]
    await minutes(1, "firing")
    assert len(await scene.told()) == 3, "the next one is another"


async def test_what_cannot_be_told_changes_nothing(bench: Bench) -> None:
    scene = Scene(bench)
    scene.sees("firing")
    await scene.watch().run_once()
    scene.seen = None
    for _ in range(10):
        bench.clock.advance(600)
        await scene.watch().run_once()
    assert len(await scene.told()) == 1
    assert await bench.books.value("SELECT count(*) FROM alert_episode WHERE resolved_at IS NULL") == 1


async def test_the_organisations_own_is_told_to_the_organisation(bench: Bench) -> None:
    scene = Scene(bench, "replica.down")
    scene.sees("firing", tenant_id=None)
    await scene.watch().run_once()
    scene.seen = []
    for _ in range(7):
        bench.clock.advance(60)
        await scene.watch().run_once()
    assert await scene.told() == [("replica.down", None, "firing"), ("replica.recovered", None, "resolved")]


async def test_a_silence_keeps_it_from_being_told(bench: Bench) -> None:
    """While it holds; what is still wrong afterwards is announced then, once."""
    scene = Scene(bench)
    watch = scene.watch()
    silence = Silence(
        id="silence_a",
        source="slo.burn_rate",
        scope=None,
        tenant_id="proj_a",
        reason="maintenance",
        created_by="test",
        starts_at=NOW,
        ends_at=NOW + timedelta(minutes=10),
        created_at=NOW,
    )
    async with bench.database.write() as session:
        await SilenceRepository().insert(session, silence)
    for _ in range(8):
        bench.clock.advance(60)
        scene.sees("firing")
        await watch.run_once()
    assert await scene.told() == []
    (row,) = await bench.books.rows("SELECT silence_id, announced_at FROM alert_episode")
    assert tuple(row) == ("silence_a", None)
    for _ in range(5):
        bench.clock.advance(60)
        await watch.run_once()
    assert await scene.told() == [("slo.burn_rate.firing", "proj_a", "firing")]


async def test_nothing_is_half_done_when_the_announcement_fails(bench: Bench) -> None:
    scene = Scene(bench)
    scene.sees("firing")
    await bench.books.run("ALTER TABLE alert_record RENAME TO hidden")
    with pytest.raises(ProgrammingError, match="alert_record"):
        await scene.watch().run_once()
    await bench.books.run("ALTER TABLE hidden RENAME TO alert_record")
    assert await bench.books.count("alert_episode") == 0
    await scene.watch().run_once()
    assert len(await scene.told()) == 1


async def test_a_worker_killed_between_an_episode_and_its_commit_doubles_nothing(
    bench: Bench, database_url: str, tmp_path: Path
) -> None:
    """The worker's own process, killed with -9 in the middle of the transaction, again and again: then one episode, one
    announcement, and refusals that were counted once."""
    books = bench.books
    await books.run(
        "INSERT INTO refusal_minute (bucket, gateway_id, instance_id, tenant_id, key_id, served_model, reason, requests)"
        " SELECT date_trunc('minute', now(), 'UTC') - n * interval '1 minute', 'gw', 'run', 'proj_a', 'key', 'm',"
        " 'server_is_overloaded', 100 FROM generate_series(1, 20) n"
    )
    async with asyncio.timeout(TIMEOUT_S):
        for name in ("slo.refusals_counted", *["episode.before_commit"] * KILLS):
            (tmp_path / name).write_text("kill")
            victim = await start_worker(database_url, tmp_path)
            assert await victim.wait() == -signals.SIGKILL
            assert await books.count("alert_episode") == await books.count("alert_record") == 0
        survivor = await start_worker(database_url, tmp_path)
        while not await books.value(  # noqa: ASYNC110  (the condition is in the database)
            "SELECT count(*) FROM alert_episode WHERE tenant_id = 'proj_a' AND severity = 'page'"
        ):
            await asyncio.sleep(0.1)
        survivor.send_signal(signals.SIGTERM)
        await survivor.wait()
    rows = await books.rows("SELECT source, scope FROM alert_episode ORDER BY scope")
    assert len({tuple(row) for row in rows}) == len(rows)
    assert await books.count("alert_record") == len(rows)
    assert await books.value("SELECT total FROM slo_day WHERE tenant_id = 'proj_a'") == 2_000
