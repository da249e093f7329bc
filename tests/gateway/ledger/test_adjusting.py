"""Adjustments, credits and top-ups: new rows, once per key, counted in budgets, never below what there is."""

import asyncio
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from gateway.db import Database
from gateway.errors import GatewayError
from gateway.ids import IdSource, RequestId, TenantId
from gateway.ledger.adjusting import Adjuster, Adjustment, Credit, TopUp
from gateway.ledger.errors import BudgetExceeded, EntryConflict, MoreThanCharged, NoSuchBudget, NoSuchRequest
from gateway.ledger.types import Entry
from tests.fakes.clock import ManualClock
from tests.gateway.books import Books, MakeLedger
from tests.gateway.ledger.builders import reservation, settlement
from tests.instants import just_now

NOW = just_now()
BOUND = 50_000
COST = 10 * 100 + 5 * 400
PROJECT = TenantId("proj_a")
REQUEST = RequestId("req_1")
ADJUSTER = Adjuster(ManualClock(NOW), IdSource())


def adjustment(amount: int, key: str = "k1", tenant: TenantId = PROJECT, reason: str = "slow") -> Adjustment:
    return Adjustment(key, tenant, REQUEST, amount, reason, "admin_a")


def top_up(amount: int, key: str = "k1", budget: str = "budget-tenant-proj_a-prepaid") -> TopUp:
    return TopUp(key, budget, amount, "invoice 7", "admin_a")


async def do(books: Books, wanted: Adjustment | Credit | TopUp) -> Entry:
    async with books.database.write() as session:
        if isinstance(wanted, Adjustment):
            return await ADJUSTER.adjust(session, wanted)
        if isinstance(wanted, Credit):
            return await ADJUSTER.credit(session, wanted)
        return await ADJUSTER.top_up(session, wanted)


@pytest.fixture
async def settled(make_ledger: MakeLedger, books: Books) -> None:
    """One request of COST on a tenant budget."""
    await books.add_budget(BOUND)
    ledger = await make_ledger()
    ledger.settle(settlement(await ledger.reserve(reservation(REQUEST)), NOW))
    await ledger.drain()


@pytest.mark.usefixtures("settled")
async def test_a_refund_is_a_new_event_that_corrects_the_first_and_gives_the_budget_room(
    books: Books,
) -> None:
    entry = await do(books, adjustment(-COST))
    assert not entry.is_repeated
    first, refund = await books.rows("SELECT * FROM usage_event ORDER BY kind DESC")
    assert (refund.kind, refund.corrects, refund.event_id) == ("adjustment", first.event_id, entry.event_id)
    assert (refund.amount_nanousd, refund.adjustment_nanousd, refund.completion_tokens) == (-COST, -COST, 0)
    same = ("request_id", "tenant_id", "key_id", "served_model", "pool_id", "price_input_id", "status")
    assert [getattr(refund, name) for name in same] == [getattr(first, name) for name in same]
    assert await books.held_and_spent() == (0, 0)
    assert await books.count("outbox") == 2
    assert await books.value("SELECT reason FROM ledger_entry") == "slow"


@pytest.mark.usefixtures("settled")
async def test_repeated_it_happens_once_and_with_other_content_it_is_refused(books: Books) -> None:
    entries = await asyncio.gather(*(do(books, adjustment(-100)) for _ in range(3)))
    assert sorted(entry.is_repeated for entry in entries) == [False, True, True]
    assert len({entry.event_id for entry in entries}) == 1
    for other in (adjustment(-101), adjustment(-100, reason="else"), Credit("k1", PROJECT, 100, "slow", "a")):
        with pytest.raises(EntryConflict):
            await do(books, other)
    assert await books.count("usage_event") == 2
    assert await books.held_and_spent() == (0, COST - 100)


@pytest.mark.usefixtures("settled")
async def test_no_more_is_given_back_than_was_charged_even_by_two_at_once(books: Books) -> None:
    half = COST * 2 // 3
    results = await asyncio.gather(
        do(books, adjustment(-half, "k1")), do(books, adjustment(-half, "k2")), return_exceptions=True
    )
    assert sorted(type(result).__name__ for result in results) == ["Entry", "MoreThanCharged"]
    with pytest.raises(MoreThanCharged, match=r"At most \$0.000001"):
        await do(books, adjustment(-COST, "k3"))
    await do(books, adjustment(-(COST - half), "k4"))
    assert await books.value("SELECT sum(amount_nanousd)::int FROM usage_event") == 0
    assert await books.count("ledger_entry") == 2


@pytest.mark.usefixtures("settled")
async def test_another_tenants_request_does_not_exist(books: Books) -> None:
    await books.add_tenant("proj_b")
    with pytest.raises(NoSuchRequest) as refused:
        await do(books, adjustment(-1, tenant=TenantId("proj_b")))
    assert refused.value.status == 404
    assert await books.count("ledger_entry") == 0


@pytest.mark.usefixtures("settled")
async def test_a_credit_belongs_to_the_tenant_alone(books: Books) -> None:
    await books.add_budget(BOUND, scope="key", key_id="key_a")
    await books.add_budget(BOUND, scope="organization", tenant_id=None)
    entry = await do(books, Credit("k1", PROJECT, 500, "goodwill", "admin_a"))
    assert entry.amount_nanousd == -500
    event = (await books.rows("SELECT * FROM usage_event WHERE kind = 'credit'"))[0]
    assert (event.amount_nanousd, event.corrects, event.key_id, event.served_model) == (-500, None, "", "")
    assert await books.held_and_spent() == (0, COST - 500)
    assert await books.held_and_spent("budget-organization-monthly") == (0, -500)
    assert await books.held_and_spent("budget-key-proj_a-key_a-monthly") == (0, 0)


async def test_a_prepaid_balance_is_what_was_topped_up_less_what_was_spent(
    make_ledger: MakeLedger, books: Books
) -> None:
    budget = await books.add_budget(0, period="prepaid")
    ledger = await make_ledger()
    with pytest.raises(BudgetExceeded):
        await ledger.reserve(reservation("req_0"))
    await asyncio.gather(*(do(books, top_up(BOUND)) for _ in range(2)))
    hold = await ledger.reserve(reservation(REQUEST))
    assert hold.takes[0].period_key == "prepaid"
    ledger.settle(settlement(hold, NOW))
    with pytest.raises(BudgetExceeded):
        await ledger.reserve(reservation("req_2"))
    await ledger.drain()
    await do(books, top_up(COST, "k2"))
    ledger = await make_ledger()
    ledger.settle(settlement(await ledger.reserve(reservation("req_3")), NOW))
    await ledger.drain()
    assert await books.held_and_spent(budget) == (0, 2 * COST)
    assert await books.value("SELECT limit_nanousd FROM budget") == BOUND + COST
    assert await books.count("usage_event") == 2


async def test_only_a_prepaid_budget_is_topped_up_and_never_below_zero(books: Books) -> None:
    await books.add_budget(5, period="prepaid")
    monthly = await books.add_budget(5)
    for budget in (monthly, "budget_x"):
        with pytest.raises(NoSuchBudget):
            await do(books, top_up(1, budget=budget))
    with pytest.raises(MoreThanCharged):
        await do(books, top_up(-6))
    await do(books, top_up(-5))
    assert sorted(await _limits(books)) == [0, 5]


@pytest.mark.usefixtures("settled")
async def test_the_application_cannot_change_an_entry(books: Books, database_url: str) -> None:
    await do(books, adjustment(-1))
    application = Database(database_url, name="test", pool_size=1)
    for statement in ("UPDATE ledger_entry SET reason = 'x'", "DELETE FROM ledger_entry"):
        with pytest.raises(DBAPIError, match="permission denied"):
            async with application.write() as session:
                await session.execute(text(statement))
    await application.close()


@pytest.mark.parametrize(
    ("error", "status"),
    [(EntryConflict(), 400), (NoSuchRequest("r"), 404), (NoSuchBudget("b"), 404), (MoreThanCharged(7), 400)],
)
def test_each_refusal_is_the_callers(error: GatewayError, status: int) -> None:
    assert error.status == status


def test_an_entry_says_by_which_event_it_is_seen() -> None:
    entry = Entry("k", "credit", PROJECT, -1, "r", "admin_a", NOW, event_id=UUID(int=1))
    assert entry.event_id == UUID(int=1)


async def _limits(books: Books) -> list[int]:
    return [row[0] for row in await books.rows("SELECT limit_nanousd FROM budget")]
