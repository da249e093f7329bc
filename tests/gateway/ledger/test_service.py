"""Reserve, settle and release through `Ledger`, on a real database."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gateway.ids import RequestId
from gateway.ledger.errors import BudgetExceeded, DuplicateSettlement
from gateway.ledger.types import AttemptRecord, Settlement
from tests.fakes.clock import ManualClock
from tests.gateway.books import Books, MakeLedger
from tests.gateway.ledger.builders import reservation, settlement
from tests.instants import just_now

NOW = just_now()
BOUND = 50_000
COST = 10 * 100 + 5 * 400


async def test_reserve_holds_the_bound_and_settle_charges_what_was_produced(
    make_ledger: MakeLedger, books: Books
) -> None:
    await books.add_budget(1_000_000)
    ledger = await make_ledger()
    hold = await ledger.reserve(reservation("req_1"))
    assert hold.amount_nanousd == BOUND
    assert await books.held_and_spent() == (BOUND, 0)
    ledger.settle(settlement(hold, NOW, prompt=10, cached=4, completion=5, reasoning_tokens=2))
    await ledger.drain()
    assert await books.held_and_spent() == (0, 6 * 100 + 4 * 10 + 5 * 400)
    event = (await books.rows("SELECT * FROM usage_event"))[0]
    assert (event.request_id, event.status, event.tenant_id, event.key_id) == (
        "req_1",
        "ok",
        "proj_a",
        "key_a",
    )
    assert (event.prompt_uncached_tokens, event.prompt_cached_tokens, event.completion_tokens) == (6, 4, 5)
    assert (event.amount_nanousd, event.reasoning_tokens, event.over_hold_nanousd) == (2640, 2, 0)
    assert event.occurred_at == NOW
    assert await books.count("hold") == 0
    assert (
        await books.count("attempt")
        == await books.count("outbox")
        == await books.count("settled_request")
        == 1
    )


async def test_a_tenant_without_a_budget_is_never_refused_and_touches_no_budget_row(
    make_ledger: MakeLedger, books: Books
) -> None:
    """Duty B12: no budget, no refusal for budget; the organisation's, other tenants' and other keys' do not count."""
    await books.add_budget(0, tenant_id="proj_a", scope="key", key_id="another_key")
    ledger = await make_ledger()
    hold = await ledger.reserve(reservation("req_1", max_output_tokens=1_000_000))
    assert hold.takes == ()
    ledger.settle(settlement(hold, NOW))
    await ledger.drain()
    assert await books.count("budget_period") == 0
    assert await books.count("usage_event") == 1


@pytest.mark.parametrize(
    ("scope", "tenant_id", "key_id", "code"),
    [
        ("organization", None, None, "organization_spend_limit_exceeded"),
        ("tenant", "proj_a", None, "project_spend_limit_exceeded"),
        ("key", "proj_a", "key_a", "insufficient_quota"),
    ],
)
async def test_a_full_hard_budget_refuses_in_openais_words(
    make_ledger: MakeLedger, books: Books, scope: str, tenant_id: str | None, key_id: str | None, code: str
) -> None:
    await books.add_budget(BOUND, scope=scope, tenant_id=tenant_id, key_id=key_id)
    ledger = await make_ledger()
    await ledger.reserve(reservation("req_1"))
    with pytest.raises(BudgetExceeded) as refused:
        await ledger.reserve(reservation("req_2"))
    assert (refused.value.status, refused.value.code) == (429, code)
    assert refused.value.response_headers()["x-should-retry"] == "false"
    ledger.release(RequestId("req_1"), "test")


async def test_a_refusal_by_one_scope_takes_nothing_from_the_others(
    make_ledger: MakeLedger, books: Books
) -> None:
    tenant = await books.add_budget(10 * BOUND)
    key = await books.add_budget(BOUND - 1, scope="key", key_id="key_a")
    ledger = await make_ledger()
    with pytest.raises(BudgetExceeded):
        await ledger.reserve(reservation("req_1"))
    assert await books.held_and_spent(tenant) == await books.held_and_spent(key) == (0, 0)
    assert await books.count("hold") == 0


async def test_a_raised_limit_counts_at_once_and_a_soft_one_never_refuses(
    make_ledger: MakeLedger, books: Books
) -> None:
    await books.add_budget(0)
    ledger = await make_ledger()
    with pytest.raises(BudgetExceeded):
        await ledger.reserve(reservation("req_1"))
    await books.run("UPDATE budget SET limit_nanousd = :bound", bound=BOUND)
    await ledger.reserve(reservation("req_2"))
    await books.run("UPDATE budget SET limit_nanousd = 0, is_hard = false")
    await ledger.reserve(reservation("req_3"))
    assert await books.held_and_spent() == (2 * BOUND, 0)
    for request_id in ("req_2", "req_3"):
        ledger.release(RequestId(request_id), "test")


async def test_release_gives_the_hold_back_and_leaves_an_event_without_tokens(
    make_ledger: MakeLedger, books: Books
) -> None:
    await books.add_budget(BOUND)
    ledger = await make_ledger()
    await ledger.reserve(reservation("req_1"))
    ledger.release(RequestId("req_1"), "server_is_overloaded")
    await ledger.drain()
    assert await books.held_and_spent() == (0, 0)
    rows = await books.rows("SELECT status, error_code, amount_nanousd FROM usage_event")
    assert [tuple(row) for row in rows] == [("error", "server_is_overloaded", 0)]


async def test_retries_are_written_as_unbilled_and_cost_nothing(
    make_ledger: MakeLedger, books: Books
) -> None:
    ledger = await make_ledger()
    hold = await ledger.reserve(reservation("req_1"))
    failed = AttemptRecord.unbilled(0, None, "e1", "retry", prompt_tokens=10, completion_tokens=1)
    served = AttemptRecord.billed(1, None, "e2", prompt_tokens=10, cached_tokens=0, completion_tokens=5)
    ledger.settle(Settlement(hold, "ok", NOW, (failed, served)))
    await ledger.drain()
    assert await books.value("SELECT amount_nanousd FROM usage_event") == COST
    billed = "SELECT sum(billed_prompt_tokens + billed_completion_tokens)::int FROM attempt"
    assert await books.value(billed) == 15
    assert await books.value("SELECT unbilled_reason FROM attempt WHERE attempt = 0") == "retry"


async def test_a_second_settlement_is_a_named_error_and_charges_nothing(
    make_ledger: MakeLedger, books: Books
) -> None:
    await books.add_budget(1_000_000)
    ledger = await make_ledger()
    hold = await ledger.reserve(reservation("req_1"))
    ledger.settle(settlement(hold, NOW))
    for again in (lambda: ledger.settle(settlement(hold, NOW)), lambda: ledger.release(hold.request_id, "x")):
        with pytest.raises(DuplicateSettlement):
            again()
    await ledger.drain()
    assert await books.held_and_spent() == (0, COST)
    assert await books.count("usage_event") == 1


async def test_the_guard_of_the_database_stops_what_another_process_settles_again(
    make_ledger: MakeLedger, books: Books
) -> None:
    await books.add_budget(1_000_000)
    first, second = await make_ledger("gw-1"), await make_ledger("gw-2")
    hold = await first.reserve(reservation("req_1"))
    first.settle(settlement(hold, NOW))
    for _ in range(3):
        second._settler.submit(settlement(hold, NOW, completion=50))
    await first.drain()
    await second.drain()
    assert (
        await books.count("usage_event") == await books.count("attempt") == await books.count("outbox") == 1
    )
    held, spent = await books.held_and_spent()
    assert held == 0
    assert spent in (COST, 1000 + 50 * 400)
    assert spent == await books.value("SELECT amount_nanousd FROM usage_event")


async def test_a_settlement_whose_hold_is_gone_is_charged_all_the_same(
    make_ledger: MakeLedger, books: Books
) -> None:
    await books.add_budget(1_000_000)
    ledger = await make_ledger()
    hold = await ledger.reserve(reservation("req_1"))
    await books.run("DELETE FROM hold")
    await books.run("UPDATE budget_period SET held_nanousd = 0")
    ledger.settle(settlement(hold, NOW))
    await ledger.drain()
    assert await books.held_and_spent() == (0, COST)


async def test_above_the_hold_is_charged_and_flagged(make_ledger: MakeLedger, books: Books) -> None:
    await books.add_budget(BOUND)
    ledger = await make_ledger()
    hold = await ledger.reserve(reservation("req_1"))
    ledger.settle(settlement(hold, NOW, prompt=100, completion=150))
    await ledger.drain()
    assert await books.value("SELECT over_hold_nanousd FROM usage_event") == 70_000 - BOUND
    assert await books.held_and_spent() == (0, 70_000)


async def test_the_period_is_that_of_the_reservation(make_ledger: MakeLedger, books: Books) -> None:
    """Settled in the next month, it is spent where it was held."""
    await books.add_budget(1_000_000)
    clock = ManualClock(datetime(2030, 12, 31, 23, 59, tzinfo=UTC))
    ledger = await make_ledger(clock=clock)
    hold = await ledger.reserve(reservation("req_1"))
    clock.step_wall(60)
    ledger.settle(settlement(hold, clock.now()))
    await ledger.drain()
    assert await books.held_and_spent() == (0, COST)
    assert await books.value("SELECT count(*) FROM usage_event_2031_01") == 1


@pytest.mark.parametrize("poisoned", [{"error_code": "nul \x00 byte"}, {"completion": 10**10}])
async def test_a_poisoned_settlement_fails_alone_and_is_kept(
    make_ledger: MakeLedger, books: Books, tmp_path: Path, poisoned: dict[str, Any]
) -> None:
    """Whether the database refuses it or nobody can say what it costs."""
    await books.add_budget(10_000_000)
    ledger = await make_ledger()
    holds = [await ledger.reserve(reservation(f"req_{number}")) for number in range(20)]
    poison = holds[7].request_id
    for hold in holds:
        ledger.settle(settlement(hold, NOW, **(poisoned if hold.request_id == poison else {})))
    await ledger.drain()
    assert await books.count("usage_event") == 19
    assert [row[0] for row in await books.rows("SELECT request_id FROM hold")] == [poison]
    assert await books.held_and_spent() == (BOUND, 19 * COST)
    rejected = (tmp_path / "spool" / "gw-1.rejected").read_bytes()
    assert rejected.count(b"\n") == 1
    assert poison.encode() in rejected
