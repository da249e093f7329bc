"""Budgets through whole ledgers: shared by gateways, under concurrency, over the ends of periods."""

import asyncio
import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import count

import pytest

from gateway.ids import RequestId
from gateway.ledger.errors import BudgetExceeded
from gateway.ledger.service import Ledger
from gateway.ledger.types import Hold
from tests.fakes.clock import ManualClock
from tests.gateway.books import Books, MakeLedger
from tests.gateway.ledger.builders import reservation, settlement
from tests.instants import just_now
from tests.seeds import seed_of_test

NOW = just_now()
BOUND = 50_000
WRITERS = 16
IDLE = "SELECT count(*) FROM budget_period WHERE held_nanousd <> 0"


async def test_two_gateways_never_overspend_one_hard_budget(make_ledger: MakeLedger, books: Books) -> None:
    """Duty B11: with budget B and 200 parallel requests, settled + held <= B in every committed state of the row.

    Over two gateways; at least 30 % are refused, and at least 95 % of the limit is spent in the end.
    """
    limit = 130 * BOUND
    await books.add_budget(limit)
    await books.watch_budgets()
    ledgers = [await make_ledger(f"gw-{number}") for number in (1, 2)]

    async def one(number: int) -> bool:
        ledger = ledgers[number % 2]
        hold = await _reserve(ledger, f"req_{number}")
        if hold is None:
            return False
        await asyncio.sleep(0.001 * (number % 7))
        ledger.settle(settlement(hold, NOW, prompt=100, completion=100))
        return True

    admitted = await asyncio.gather(*(one(number) for number in range(200)))
    for ledger in ledgers:
        await ledger.drain()
    history = await books.rows("SELECT held_nanousd + spent_nanousd, held_nanousd FROM budget_history")
    assert len(history) > 4
    assert max(row[0] for row in history) <= limit
    assert max(row[1] for row in history) > 0
    held, spent = await books.held_and_spent()
    assert (held, spent) == (0, sum(admitted) * BOUND)
    assert limit * 0.95 <= spent <= limit
    assert admitted.count(False) >= 60


async def test_sixteen_writers_lose_no_increment_and_meet_no_deadlock(
    make_ledger: MakeLedger, books: Books
) -> None:
    """Duty B16: gateways share budgets. Sixteen of them, on overlapping sets of eight rows, some of which refuse."""
    seed = seed_of_test()
    draw = random.Random(seed)
    scopes = [(None, None)]
    scopes += [("proj_a", None), ("proj_b", None)]
    scopes += [(tenant, key) for tenant in ("proj_a", "proj_b") for key in ("key_a", "key_b")]
    await books.add_tenant("proj_b")
    for tenant, key in scopes:
        scope = "organization" if tenant is None else "key" if key else "tenant"
        limit = 6 * BOUND if key == "key_b" else 10**12
        await books.add_budget(limit, scope=scope, tenant_id=tenant, key_id=key)
    await books.add_budget(1, period="prepaid", is_hard=False)
    await books.watch_budgets()
    ledgers = await asyncio.gather(*(make_ledger(f"gw-{number}") for number in range(WRITERS)))
    plan = [
        [(draw.choice(("proj_a", "proj_b")), draw.choice(("key_a", "key_b"))) for _ in range(12)]
        for _ in range(WRITERS)
    ]
    await asyncio.gather(*(_write(*one) for one in zip(ledgers, count(), plan, strict=False)))
    await asyncio.gather(*(ledger.drain() for ledger in ledgers))
    assert await books.value(IDLE) == 0
    wrong = await books.rows(
        "SELECT b.id, p.spent_nanousd, e.amount FROM budget b JOIN budget_period p ON p.budget_id = b.id, LATERAL ("
        " SELECT coalesce(sum(amount_nanousd), 0) AS amount FROM usage_event WHERE coalesce(b.tenant_id, tenant_id) ="
        " tenant_id AND coalesce(b.key_id, key_id) = key_id) e WHERE p.spent_nanousd <> e.amount"
    )
    assert wrong == []
    assert await books.count("budget_period") == len(scopes) + 1
    over = (
        "SELECT count(*) FROM budget_history h JOIN budget b ON b.id = h.budget_id"
        " WHERE b.is_hard AND h.held_nanousd + h.spent_nanousd > b.limit_nanousd"
    )
    assert await books.value(over) == 0
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    assert await books.value(deadlocks) == 0


@pytest.mark.parametrize(
    ("period", "zone", "last", "first"),
    [
        ("daily", "UTC", "2026-11-29T23:59:59.999999+00:00", "2026-11-30T00:00:00+00:00"),
        # The day on which the clocks go back has 25 hours, the one on which they go forward 23.
        ("daily", "Europe/Berlin", "2026-10-25T22:59:59.999999+00:00", "2026-10-25T23:00:00+00:00"),
        ("daily", "Europe/Berlin", "2026-03-29T21:59:59.999999+00:00", "2026-03-29T22:00:00+00:00"),
        ("daily", "America/New_York", "2026-11-02T04:59:59.999999+00:00", "2026-11-02T05:00:00+00:00"),
        ("weekly", "Asia/Kathmandu", "2027-01-03T18:14:59.999999+00:00", "2027-01-03T18:15:00+00:00"),
        ("monthly", "UTC", "2028-02-29T23:59:59.999999+00:00", "2028-03-01T00:00:00+00:00"),
        ("monthly", "Europe/Berlin", "2026-10-31T22:59:59.999999+00:00", "2026-10-31T23:00:00+00:00"),
        ("monthly", "Pacific/Kiritimati", "2026-12-31T09:59:59.999999+00:00", "2026-12-31T10:00:00+00:00"),
    ],
)
async def test_a_period_ends_at_the_zones_midnight_and_not_a_microsecond_apart(
    make_ledger: MakeLedger, books: Books, period: str, zone: str, last: str, first: str
) -> None:
    """Duty B15: boundaries are in the budget's zone and half-open, over clock changes and month ends."""
    await books.add_budget(BOUND, period=period, zone=zone)
    clock = ManualClock(datetime.fromisoformat(last) - timedelta(seconds=1))
    ledger = await make_ledger(clock=clock)
    spent = await ledger.reserve(reservation("req_1"))
    clock.step_wall((datetime.fromisoformat(last) - clock.now()).total_seconds())
    assert await _reserve(ledger, "req_2") is None
    clock.step_wall((datetime.fromisoformat(first) - clock.now()).total_seconds())
    following = await ledger.reserve(reservation("req_3"))
    assert spent.takes[0].period_key < following.takes[0].period_key
    assert await _reserve(ledger, "req_4") is None
    ledger.settle(settlement(spent, clock.now(), prompt=100, completion=100))
    ledger.release(following.request_id, "test")
    await ledger.drain()
    rows = await books.rows("SELECT held_nanousd, spent_nanousd FROM budget_period ORDER BY period_key")
    assert [tuple(row) for row in rows] == [(0, BOUND), (0, 0)]


async def test_a_new_period_costs_idle_tenants_nothing(make_ledger: MakeLedger, books: Books) -> None:
    """Duty B17: no sweep over tenants: a period begins by the clock, and only the rows that are used exist."""
    await books.run(
        "INSERT INTO tenant (id, name) SELECT 'idle_' || n, 'idle' FROM generate_series(1, 500) n"
    )
    await books.run(
        "INSERT INTO budget (id, scope, tenant_id, period, limit_nanousd)"
        " SELECT 'b_' || n, 'tenant', 'idle_' || n, 'daily', 1 FROM generate_series(1, 500) n"
    )
    await books.add_budget(BOUND, period="daily")
    clock = ManualClock(NOW)
    ledger = await make_ledger(clock=clock)
    await books.watch_budgets()
    for day in range(3):
        ledger.settle(settlement(await ledger.reserve(reservation(f"req_{day}")), NOW))
        clock.step_wall(86_400)
    await ledger.drain()
    assert await books.count("budget_period") == 3
    assert await books.value("SELECT count(DISTINCT budget_id) FROM budget_history") == 1


async def test_limits_that_change_between_two_requests_count_for_the_second(
    make_ledger: MakeLedger, books: Books
) -> None:
    """On both gateways, without waiting for any poll; a budget that is new or gone as well."""
    ledgers = [await make_ledger(f"gw-{number}") for number in (1, 2)]
    names = (f"req_{number}" for number in count())

    async def verdicts() -> list[bool]:
        holds = [await _reserve(ledger, next(names)) for ledger in ledgers]
        for ledger, hold in zip(ledgers, holds, strict=True):
            if hold is not None:
                ledger.release(hold.request_id, "test")
        async with asyncio.timeout(60):
            while await books.count("hold"):  # noqa: ASYNC110  (the condition is in the database)
                await asyncio.sleep(0.01)
        return [hold is not None for hold in holds]

    assert await verdicts() == [True, True]
    budget = await books.add_budget(BOUND - 1)
    assert await verdicts() == [False, False]
    await books.run("UPDATE budget SET limit_nanousd = :limit", limit=BOUND)
    assert await verdicts() == [True, False]
    await books.run("UPDATE budget SET limit_nanousd = :limit", limit=2 * BOUND)
    assert await verdicts() == [True, True]
    await books.run("UPDATE budget SET limit_nanousd = 0, is_hard = false")
    assert await verdicts() == [True, True]
    await books.run("UPDATE budget SET is_hard = true")
    assert await verdicts() == [False, False]
    await books.run("DELETE FROM budget")
    assert await verdicts() == [True, True]
    assert await books.held_and_spent(budget) == (0, 0)


async def test_a_soft_budget_of_nothing_counts_and_never_refuses(
    make_ledger: MakeLedger, books: Books
) -> None:
    """Beside a hard one on another scope, whose room alone decides."""
    soft = await books.add_budget(0, is_hard=False)
    hard = await books.add_budget(2 * BOUND, scope="organization", tenant_id=None)
    ledger = await make_ledger()
    holds = [await _reserve(ledger, f"req_{number}") for number in range(3)]
    assert [hold is not None for hold in holds] == [True, True, False]
    assert await books.held_and_spent(soft) == await books.held_and_spent(hard) == (2 * BOUND, 0)
    for hold in holds[:2]:
        assert hold is not None
        ledger.settle(settlement(hold, NOW, prompt=100, completion=150))  # above its hold
    await ledger.drain()
    assert await books.held_and_spent(soft) == await books.held_and_spent(hard) == (0, 140_000)


async def _reserve(ledger: Ledger, name: str, tenant: str = "proj_a", key: str = "key_a") -> Hold | None:
    try:
        return await ledger.reserve(reservation(name, tenant, key))
    except BudgetExceeded:
        return None


async def _write(ledger: Ledger, number: int, plan: Sequence[tuple[str, str]]) -> None:
    for turn, (tenant, key) in enumerate(plan):
        hold = await _reserve(ledger, f"req_{number}_{turn}", tenant, key)
        if hold is None:
            continue
        if turn % 4 == 3:
            ledger.release(RequestId(hold.request_id), "test")
        else:
            ledger.settle(settlement(hold, NOW, prompt=turn, completion=number))
