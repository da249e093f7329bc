"""Every source, from what is in the database to what is announced."""

from __future__ import annotations

from datetime import timedelta

from gateway.alerts.kinds import KINDS
from gateway.alerts.watches import EVERY_S, Watches
from gateway.ids import IdSource
from gateway.ledger.types import Timings
from gateway.obs.metrics import Metrics
from gateway.slo.histogram import bound_of
from tests.gateway.alerts.conftest import NOW, Bench
from tests.gateway.usage_events import settled, write


def watches(bench: Bench, differences: dict[str, int | None] | None = None) -> Watches:
    return Watches(
        bench.database,
        clock=bench.clock,
        ids=IdSource(bench.clock),
        metrics=Metrics(),
        differences=lambda: differences or {"rollups": None},
    )


async def open_scopes(bench: Bench, source: str) -> list[str]:
    rows = await bench.books.rows(
        "SELECT scope FROM alert_episode WHERE source = :source AND resolved_at IS NULL ORDER BY 1",
        source=source,
    )
    return [row[0] for row in rows]


async def add_pool(bench: Bench, state: str = "ready", restarts: int = 0) -> None:
    await bench.books.run("INSERT INTO pool (id, name, spec) VALUES ('pool_a', 'a', '{}')")
    await bench.books.run(
        "INSERT INTO replica (id, pool_id, node, state, restarts) VALUES ('replica_a', 'pool_a', 'n', :state, :restarts)",
        state=state,
        restarts=restarts,
    )


async def sample(bench: Bench, waiting: int, kv_usage: float, preempting: bool) -> None:
    """The five minutes before now."""
    await bench.books.run(
        "INSERT INTO replica_sample SELECT CAST(:now AS timestamptz) - n * interval '10 seconds', 'replica_a', 'pool_a', 1,"
        " :waiting, :kv, CASE WHEN :preempting THEN 100 - n ELSE 0 END, 0 FROM generate_series(0, 29) n",
        now=bench.clock.now(),
        waiting=waiting,
        kv=kv_usage,
        preempting=preempting,
    )


def test_every_source_is_watched() -> None:
    assert set(EVERY_S) == set(KINDS)


async def test_a_pool_in_trouble_and_out_of_it(bench: Bench) -> None:
    await add_pool(bench)
    all_ = watches(bench)
    sources = ("pool.queue_high", "pool.kv_high", "pool.preemptions_high")
    await sample(bench, 55, 0.99, True)
    for source in sources:
        await all_.watches[source].run_once()
    assert [await open_scopes(bench, source) for source in sources] == [
        ["pool_a/scale", "pool_a/warn"],
        ["pool_a"],
        ["pool_a"],
    ]
    for _ in range(2):
        bench.clock.advance(600)
        await sample(bench, 0, 0.1, False)
        for source in sources:
            await all_.watches[source].run_once()
    assert [await open_scopes(bench, source) for source in sources] == [[], [], []]
    types = await bench.books.rows("SELECT type, count(*) FROM alert_record GROUP BY 1 ORDER BY 1")
    assert [tuple(row) for row in types] == [
        ("pool.kv_high", 2),
        ("pool.preemptions_high", 2),
        ("pool.queue_high", 4),
    ]


async def test_replicas_that_are_down_and_that_come_and_go(bench: Bench) -> None:
    await add_pool(bench, "failed", restarts=3)
    all_ = watches(bench)
    for source in ("replica.down", "replica.flapping"):
        await all_.watches[source].run_once()
        assert await open_scopes(bench, source) == ["replica_a"]
    await bench.books.run("UPDATE pool SET desired_state = 'stopped'")
    for _ in range(2):
        bench.clock.advance(700)
        await all_.watches["replica.down"].run_once()
    assert await open_scopes(bench, "replica.down") == [], "nobody wants it any more"


async def test_late_answers_of_a_pool(bench: Bench) -> None:
    timings = Timings(ttft_ms=100, e2e_ms=45_000)
    at = NOW - timedelta(minutes=2)
    await write(bench.database, [settled(n, at, timings=timings) for n in range(30)])
    await watches(bench).watches["pool.latency_high"].run_once()
    assert await open_scopes(bench, "pool.latency_high") == ["pool_a"]
    value = await bench.books.value("SELECT values ->> 'e2e_p99_s' FROM alert_episode")
    assert 44 < float(value) <= bound_of(45_000_000) / 1e6


async def test_burning_budgets(bench: Bench) -> None:
    at = NOW - timedelta(minutes=3)
    failed = [settled(n, at, status="error", error_code="server_error") for n in range(40)]
    await write(bench.database, failed)
    await watches(bench).watches["slo.burn_rate"].run_once()
    assert await open_scopes(bench, "slo.burn_rate") == [
        f"{who}/tiny/interactive/availability/{severity}"
        for who in ("*", "proj_a")
        for severity in ("page", "ticket")
    ]
    rows = await bench.books.rows("SELECT type, tenant_id FROM alert_record ORDER BY tenant_id NULLS FIRST")
    assert [tuple(row) for row in rows] == [
        ("slo.burn_rate.firing", who) for who in (None, None, "proj_a", "proj_a")
    ]


async def test_books_that_differ(bench: Bench) -> None:
    differences: dict[str, int | None] = {"rollups": 0, "journals": 7}
    await watches(bench, differences).watches["ledger.drift"].run_once()
    assert await open_scopes(bench, "ledger.drift") == ["journals"]
    await watches(bench).watches["ledger.drift"].run_once()
    assert await open_scopes(bench, "ledger.drift") == ["journals"], (
        "a worker that has not looked yet knows nothing"
    )


async def test_an_export_that_failed_until_one_succeeds(bench: Bench) -> None:
    await bench.books.run(
        "INSERT INTO export_run (id, format, period_start, period_end, destination, requested_by, status, finished_at,"
        " next_attempt_at) VALUES ('export_a', 'csv', '2026-10-01', '2026-11-01', '/x', 'test', 'failed', :at, NULL)",
        at=NOW,
    )
    watch = watches(bench).watches["export.failed"]
    await watch.run_once()
    assert await open_scopes(bench, "export.failed") == ["export_a"]
    await bench.books.run(
        "INSERT INTO export_run (id, format, period_start, period_end, destination, requested_by, status, finished_at,"
        " manifest, next_attempt_at) VALUES ('export_b', 'csv', '2026-10-01', '2026-11-01', '/x', 'test', 'succeeded',"
        " :at, '{}', NULL)",
        at=NOW + timedelta(minutes=5),
    )
    await watch.run_once()
    assert await open_scopes(bench, "export.failed") == []


async def test_keys_that_are_about_to_expire(bench: Bench) -> None:
    for name, left, made, revoked in (
        ("soon", 3, 100, None),
        ("later", 30, 100, None),
        ("revoked", 3, 100, NOW),
        ("short", 3, 1, None),
    ):
        await bench.books.run(
            "INSERT INTO api_key (tenant_id, id, name, public_id, secret_hmac, pepper_id, expires_at, created_at, revoked_at)"
            " VALUES ('proj_a', :id, :id, :id, decode(repeat('00', 32), 'hex'), 'p', :expires, :made, :revoked)",
            id=name,
            expires=NOW + timedelta(days=left),
            made=NOW - timedelta(days=made),
            revoked=revoked,
        )
    watch = watches(bench).watches["key.expiring"]
    await watch.run_once()
    assert await open_scopes(bench, "key.expiring") == ["soon"]
    await bench.books.run("UPDATE api_key SET expires_at = expires_at + interval '1 year'")
    await watch.run_once()
    assert await open_scopes(bench, "key.expiring") == []
    rows = await bench.books.rows("SELECT type, tenant_id FROM alert_record")
    assert [tuple(row) for row in rows] == [("key.expiring", "proj_a")], "nobody is told of its end"


async def test_endpoints_that_take_nothing(bench: Bench) -> None:
    """Recorded here, for the endpoint's owner to see; that it is disabled is announced by whoever disables it."""
    for name, reason, attempts in (
        ("dead", "failing", 0),
        ("slow", None, 4),
        ("well", None, 1),
        ("off", "asked", 9),
    ):
        await bench.books.run(
            "INSERT INTO webhook_endpoint (id, tenant_id, name, url, event_types, secrets_sealed, secret_hint, disabled_at,"
            " disabled_reason) VALUES (:id, 'proj_a', :id, 'https://x', '{}', '', '', :at, :reason)",
            id=name,
            reason=reason,
            at=NOW if reason is not None else None,
        )
        await bench.books.run(
            "INSERT INTO alert_record VALUES (:id, 'batch.failed', 'proj_a', '{}', now())", id=name
        )
        await bench.books.run(
            "INSERT INTO delivery (id, record_id, channel, target_key, target, attempts, next_attempt_at)"
            " VALUES (:id, :id, 'webhook', :id, '{}', :attempts, now())",
            id=name,
            attempts=attempts,
        )
    watch = watches(bench).watches["webhook.failing"]
    await watch.run_once()
    assert await open_scopes(bench, "webhook.failing") == ["dead", "slow"]
    assert await bench.books.value("SELECT count(*) FROM alert_record WHERE type <> 'batch.failed'") == 0
    await bench.books.run("UPDATE delivery SET next_attempt_at = NULL")
    await watch.run_once()
    assert await open_scopes(bench, "webhook.failing") == ["dead"]


async def test_the_worker_runs_them_all(bench: Bench) -> None:
    loops = watches(bench).loops()
    assert [name for name, _, _ in loops] == [f"alerts:{source}" for source in EVERY_S] + ["alerts:spend"]
    for _, every_s, run in loops:
        assert every_s > 0
        await run()
