"""Spend alerts: each threshold once per period and scope, again in a new period or above a raised limit."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from gateway.alerts.repository.episodes import resolve_spend
from gateway.alerts.spend import SpendWatch, windows_of
from gateway.alerts.types import Window
from gateway.ids import IdSource
from gateway.ledger.repository.budgets import note_refusals
from gateway.ledger.used_up import Refused
from gateway.obs.metrics import Metrics
from tests.gateway.alerts.conftest import NOW, Bench

REACHED, EXHAUSTED = "budget.threshold_reached", "budget.exhausted"
DAY_S = 86_400.0


def test_the_windows_that_are_looked_at() -> None:
    midnight = datetime(2026, 11, 20, tzinfo=UTC)
    day_before = Window(
        "daily", "UTC", "2026-11-19", midnight - timedelta(days=1), midnight, closed_at=midnight
    )
    kinds = [("daily", "UTC"), ("prepaid", "UTC")]
    early = windows_of(kinds, midnight + timedelta(minutes=59))  # type: ignore[arg-type]  # literals
    assert [(window.key, window.closed_at) for window in early] == [
        ("2026-11-20", None),
        ("2026-11-19", midnight),
        ("prepaid", None),
    ]
    assert early[1] == day_before
    assert len(windows_of(kinds, midnight + timedelta(hours=1))) == 2  # type: ignore[arg-type]  # literals


async def test_each_threshold_fires_once_per_period_and_again_after_a_raised_limit(bench: Bench) -> None:
    """Duty I46: once per period and scope, re-armed by a new period or a raised limit."""
    budget = await bench.budget(1000)
    for percent in (50, 80):
        await bench.alert(f"alert_{percent}", budget_id=budget, threshold_percent=percent)
    await bench.spend(budget, 499)
    assert await bench.watch.run_once() == 0
    await bench.spend(budget, 500)
    assert await bench.watch.run_once() == 1
    await bench.spend(budget, 799)
    assert await bench.watch.run_once() == 0
    await bench.spend(budget, 1000)
    assert await bench.watch.run_once() == 2
    assert await bench.watch.run_once() == 0
    first_period = [(REACHED, "alert_50", 500), (REACHED, "alert_80", 800), (EXHAUSTED, budget, 1000)]
    assert sorted(await bench.fired()) == sorted(first_period)
    await bench.books.run("UPDATE budget SET limit_nanousd = 2000")
    assert await bench.watch.run_once() == 1, "1000 is half of the raised limit"
    await bench.books.run("UPDATE budget SET limit_nanousd = 1000")
    assert await bench.watch.run_once() == 0, "a lowered limit re-arms nothing"
    bench.clock.advance(15 * DAY_S)
    assert await bench.watch.run_once() == 0
    await bench.spend(budget, 900, "2026-12")
    assert await bench.watch.run_once() == 2
    assert (await bench.fired())[-2:] == [(REACHED, "alert_50", 500), (REACHED, "alert_80", 800)]


async def test_amounts_that_no_float_could_tell_apart(bench: Bench) -> None:
    """2**53 + 1 is no double: one nano-USD below the threshold nothing fires, and a share of a limit rounds up."""
    big = 2**53 + 1
    budget = await bench.budget(4 * big)
    await bench.alert("alert_amount", budget_id=budget, threshold_nanousd=big)
    await bench.spend(budget, big - 1)
    assert await bench.watch.run_once() == 0
    await bench.spend(budget, big)
    assert await bench.watch.run_once() == 1
    odd = await bench.budget(3, period="daily")
    await bench.alert("alert_share", budget_id=odd, threshold_percent=50)
    await bench.spend(odd, 1, "2026-11-20")
    assert await bench.watch.run_once() == 0, "half of 3 is not reached by 1"
    await bench.spend(odd, 2, "2026-11-20")
    assert await bench.watch.run_once() == 1
    largest = await bench.budget(2**62, period="weekly")
    await bench.alert("alert_beyond", budget_id=largest, threshold_percent=1000)
    await bench.spend(largest, 1, "2026-W47")
    assert await bench.watch.run_once() == 0, "ten times the largest limit is beyond any amount"


async def test_a_hard_budget_is_used_up_when_it_refuses_for_what_is_spent(bench: Bench) -> None:
    """What is left at last covers no request: the limit itself is never reached."""
    budget = await bench.budget(1000)
    await bench.spend(budget, 960)
    assert await bench.watch.run_once() == 0
    for limit in (900, 1000):
        async with bench.database.transaction() as connection:
            await note_refusals(connection, [Refused(budget, "2026-11", limit)] * 2)
        assert await bench.watch.run_once() == (limit == 1000), "a refusal under another limit is past"
    assert await bench.watch.run_once() == 0
    assert await bench.fired() == [(EXHAUSTED, budget, 1000)]
    await bench.books.run("UPDATE budget SET is_hard = false, limit_nanousd = 2000")
    async with bench.database.transaction() as connection:
        await note_refusals(connection, [Refused(budget, "2026-11", 2000)])
    assert await bench.watch.run_once() == 0, "a soft budget refuses nobody"


async def test_two_workers_fire_it_once(bench: Bench) -> None:
    budget = await bench.budget(10, is_hard=False)
    for number in range(10):
        await bench.alert(f"alert_{number}", budget_id=budget, threshold_nanousd=number + 1)
    await bench.spend(budget, 10)
    others = [
        SpendWatch(bench.database, clock=bench.clock, ids=IdSource(), metrics=Metrics()) for _ in range(3)
    ]
    fired = await asyncio.gather(bench.watch.run_once(), *(other.run_once() for other in others))
    assert sum(fired) == 11
    assert len(await bench.fired()) == len(set(await bench.fired())) == 11


async def test_what_settles_after_the_end_of_a_period_still_counts_in_it(bench: Bench) -> None:
    budget = await bench.budget(100)
    await bench.alert("alert_a", budget_id=budget, threshold_percent=90)
    await bench.spend(budget, 95)
    bench.clock.step_wall((datetime(2026, 12, 1, 0, 59, tzinfo=UTC) - NOW).total_seconds())
    assert await bench.watch.run_once() == 1
    [row] = await bench.books.rows("SELECT payload FROM alert_record")
    assert row[0]["period"]["id"] == "2026-11"
    await bench.spend(budget, 100)
    bench.clock.advance(60)
    assert await bench.watch.run_once() == 0, "an hour later the period is history"


async def test_a_limit_that_was_lowered_later_does_not_judge_a_closed_period(bench: Bench) -> None:
    budget = await bench.budget(100)
    await bench.alert("alert_a", budget_id=budget, threshold_percent=90)
    await bench.spend(budget, 50)
    bench.clock.step_wall((datetime(2026, 12, 1, 0, 30, tzinfo=UTC) - NOW).total_seconds())
    await bench.books.run("UPDATE budget SET limit_nanousd = 50, updated_at = '2026-12-01 00:10Z'")
    assert await bench.watch.run_once() == 0


async def test_a_month_without_a_budget_is_watched_by_the_rollups(bench: Bench) -> None:
    await bench.books.add_tenant("proj_b")
    await bench.alert("alert_org", threshold_nanousd=30)
    await bench.alert("alert_a", tenant_id="proj_a", threshold_nanousd=20)
    await bench.alert("alert_b", tenant_id="proj_b", threshold_nanousd=20)
    for tenant, day, amount in (
        ("proj_a", "2026-11-01", 20),
        ("proj_b", "2026-11-20", 9),
        ("proj_b", "2026-10-31", 99),
    ):
        await rolled(bench, tenant, day, amount)
    assert await bench.watch.run_once() == 1
    await rolled(bench, "proj_b", "2026-11-19", 1)
    assert await bench.watch.run_once() == 1
    assert await bench.watch.run_once() == 0
    assert await bench.fired() == [(REACHED, "alert_a", 20), (REACHED, "alert_org", 30)]
    row = (await bench.books.rows("SELECT tenant_id, payload FROM alert_record WHERE tenant_id IS NULL"))[0]
    assert row[0] is None
    assert (row[1]["scope"], row[1]["limit_nanousd"], row[1]["spent_nanousd"]) == ("organization", None, 30)


async def test_what_a_record_tells(bench: Bench) -> None:
    budget = await bench.budget(100, scope="key", key_id="key_a", period="weekly", zone="Europe/Berlin")
    await bench.alert("alert_a", budget_id=budget, threshold_percent=10, subject_prefix="[x]")
    await bench.spend(budget, 11, "2026-W47")
    assert await bench.watch.run_once() == 1
    [(tenant_id, payload)] = [
        tuple(r) for r in await bench.books.rows("SELECT tenant_id, payload FROM alert_record")
    ]
    assert tenant_id == "proj_a"
    assert payload == {
        "alert_id": "alert_a",
        "budget_id": budget,
        "scope": "key",
        "project_id": "proj_a",
        "key_id": "key_a",
        "period": {
            "kind": "weekly",
            "id": "2026-W47",
            "starts_at": 1763334000 + 364 * 86400,
            "ends_at": 1763938800 + 364 * 86400,
        },
        "threshold_nanousd": 10,
        "threshold_percent": 10,
        "spent_nanousd": 11,
        "limit_nanousd": 100,
        "is_hard": True,
    }
    [mail] = [row[0] for row in await bench.books.rows("SELECT payload -> 'mail' FROM outbox")]
    assert mail == {"recipients": ["ops@example.com"], "subject_prefix": "[x]"}


async def rolled(bench: Bench, tenant: str, day: str, amount: int) -> None:
    await bench.books.run(
        "INSERT INTO rollup_day (bucket, tenant_id, key_id, served_model, pool_id, endpoint, request_class, status,"
        " requests, prompt_uncached_tokens, prompt_cached_tokens, completion_tokens, reasoning_tokens, input_nanousd,"
        " cached_input_nanousd, output_nanousd, amount_nanousd)"
        f" VALUES ('{day} 00:00Z', :tenant, '', '', '', '', '', 'ok', 1, 0, 0, 0, 0, 0, 0, 0, :amount)",
        tenant=tenant,
        amount=amount,
    )


async def silence(bench: Bench, source: str | None, minutes: int) -> None:
    await bench.books.run(
        "INSERT INTO alert_silence (id, source, scope, tenant_id, reason, created_by, starts_at, ends_at, created_at)"
        " VALUES ('silence_1', :source, NULL, NULL, 'known', 'ops', :at, :until, :at)",
        source=source,
        at=bench.clock.now(),
        until=bench.clock.now() + timedelta(minutes=minutes),
    )


async def test_a_silenced_budget_is_told_when_the_silence_is_over(bench: Bench) -> None:
    budget = await bench.budget(1000)
    await bench.alert("alert_80", budget_id=budget, threshold_percent=80, subject_prefix="[x]")
    await silence(bench, EXHAUSTED, minutes=60)
    await bench.spend(budget, 1000)
    assert await bench.watch.run_once() == 2
    assert await bench.fired() == [(REACHED, "alert_80", 800)], "the silence is of the other source"
    open_ = "SELECT silence_id, announced_at IS NULL FROM alert_episode WHERE source = 'budget.exhausted'"
    assert [tuple(row) for row in await bench.books.rows(open_)] == [("silence_1", True)]
    bench.clock.advance(3_599.0)
    assert await bench.watch.run_once() == 0
    assert len(await bench.fired()) == 1
    bench.clock.advance(2.0)
    for _ in range(2):
        assert await bench.watch.run_once() == 0, "it fired long ago"
        assert await bench.fired() == [(REACHED, "alert_80", 800), (EXHAUSTED, budget, 1000)], "told once"
    mails = await bench.books.rows(
        "SELECT payload -> 'mail' ->> 'recipients' FROM outbox WHERE topic = 'alert'"
    )
    assert [row[0] for row in mails] == ['["ops@example.com"]'] * 2


async def test_a_threshold_whose_period_ends_in_silence_is_never_told(bench: Bench) -> None:
    budget = await bench.budget(1000, period="daily")
    await bench.alert("alert_80", budget_id=budget, threshold_percent=80)
    await silence(bench, None, minutes=24 * 60)
    await bench.spend(budget, 900, "2026-11-20")
    assert await bench.watch.run_once() == 1
    async with bench.database.transaction() as connection:
        assert await resolve_spend(connection, NOW + timedelta(days=1)) == 1
    bench.clock.advance(25 * 3_600.0)
    assert await bench.watch.run_once() == 0
    assert await bench.fired() == []
