"""Reservations whose caller leaves, comes too late, or comes twice."""

import asyncio

import pytest

from gateway.ids import RequestId
from gateway.ledger.errors import BudgetExceeded, LedgerUnavailable, ReservationFailed
from tests.gateway.books import Books, MakeLedger, once_admitted
from tests.gateway.ledger.builders import reservation, settlement
from tests.instants import just_now

NOW = just_now()
BOUND = 50_000
COST = 10 * 100 + 5 * 400


async def test_two_reservations_under_one_id_fail_the_second_alone(
    make_ledger: MakeLedger, books: Books
) -> None:
    await books.add_budget(1_000_000)
    ledger = await make_ledger()
    names = ["req_1", "req_2", "req_1", "req_3"]
    results = await asyncio.gather(
        *(ledger.reserve(reservation(name)) for name in names), return_exceptions=True
    )
    failed = [result for result in results if isinstance(result, ReservationFailed)]
    assert len(failed) == 1
    assert await books.count("hold") == 3
    assert await books.held_and_spent() == (3 * BOUND, 0)
    for name in ("req_1", "req_2", "req_3"):
        ledger.release(RequestId(name), "test")


async def test_a_cancelled_reservation_gives_back_what_it_may_have_taken(
    make_ledger: MakeLedger, books: Books
) -> None:
    await books.add_budget(1_000_000)
    ledger = await make_ledger()
    tasks = [asyncio.create_task(ledger.reserve(reservation(f"req_{number}"))) for number in range(30)]
    for number, task in enumerate(tasks):
        if number % 3:
            await asyncio.sleep(0)
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await ledger.drain()
    assert await books.held_and_spent() == (0, 0)
    assert await books.count("hold") == 0


async def test_a_reservation_past_its_deadline_is_503_and_discarded_when_it_commits_later(
    make_ledger: MakeLedger, books: Books
) -> None:
    await books.add_budget(1_000_000)
    ledger = await make_ledger(reserve_timeout_s=1.0)
    ledger.settle(settlement(await once_admitted(ledger, "first"), NOW))
    async with asyncio.timeout(60):
        while not await books.count("usage_event"):  # noqa: ASYNC110  (the condition is in the database)
            await asyncio.sleep(0.01)
    async with books.database.transaction() as connection:
        await connection.exec_driver_sql("SELECT * FROM budget_period FOR UPDATE")
        with pytest.raises(LedgerUnavailable) as late:
            await ledger.reserve(reservation("req_1"))
        assert late.value.status == 503
    await ledger.drain()
    assert await books.count("hold") == 0
    assert await books.held_and_spent() == (0, COST)


async def test_room_that_somebody_takes_meanwhile_is_an_ordinary_refusal(
    make_ledger: MakeLedger, books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is room when it looks, and none when it has waited for the row: the server undoes what was written."""
    monkeypatch.setattr("gateway.db.LOCK_TIMEOUT_MS", 59_000)
    await books.add_budget(60_000)
    ledger = await make_ledger()
    ledger.release((await ledger.reserve(reservation("first"))).request_id, "test")
    async with asyncio.timeout(60):
        while not await books.count("usage_event"):  # noqa: ASYNC110  (the condition is in the database)
            await asyncio.sleep(0.01)
    async with books.database.transaction() as connection:
        await connection.exec_driver_sql("UPDATE budget_period SET spent_nanousd = 20000")
        second = asyncio.create_task(ledger.reserve(reservation("second")))
        await books.until_waiting()
    with pytest.raises(BudgetExceeded):
        await second
    assert await books.count("hold") == 0
    assert await books.held_and_spent() == (0, 20_000)


async def test_a_caller_that_leaves_as_the_answer_comes_leaves_no_hold(
    make_ledger: MakeLedger, books: Books
) -> None:
    """Cancelled from the moment of asking to after the commit, turn by turn of the loop."""
    await books.add_budget(1_000_000)
    ledger = await make_ledger()
    for turns in range(40):
        task = asyncio.create_task(ledger.reserve(reservation(f"req_{turns}")))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        [result] = await asyncio.gather(task, return_exceptions=True)
        if not isinstance(result, BaseException):
            ledger.release(RequestId(f"req_{turns}"), "test")
    [beside] = await asyncio.gather(ledger.reserve(reservation("req_beside")))
    ledger.release(beside.request_id, "test")
    await ledger.drain()
    assert await books.count("hold") == 0
    assert await books.held_and_spent() == (0, 0)
