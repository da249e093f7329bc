"""A server that is there and does not answer: lost packets, a session that goes on after we gave it up, held rows.

The limits are set short on one side only, so that a slow machine takes longer and decides nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from gateway.ids import RequestId
from gateway.ledger.errors import LedgerUnavailable
from tests.fakes.tcp_proxy import TcpProxy
from tests.gateway.books import Books, MakeLedger, once_admitted
from tests.gateway.ledger.builders import reservation, settlement
from tests.instants import just_now

NOW = just_now()
COST = 10 * 100 + 5 * 400
WAIT_S = 60


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not await condition():  # noqa: ASYNC110  (the condition is in the database)
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("late", [True, False])
async def test_a_partition_is_noticed_ends_and_loses_or_doubles_nothing(
    make_ledger: MakeLedger, books: Books, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    """No packet comes back and no error comes: without a limit of our own both batchers would wait for ever. What was
    under way when it began may arrive when it is over, and takes nothing then."""
    monkeypatch.setattr("gateway.db.ANSWER_MARGIN_S", 0.2)
    await books.add_budget(10**9)
    proxy = TcpProxy(books.database_url)
    await proxy.restore()
    limits = {"connect_timeout_s": 2, "statement_timeout_s": 2}
    ledger = await make_ledger(url=proxy.url, database=limits, reserve_timeout_s=1.0)
    first = await once_admitted(ledger, "first")

    async def is_quiet() -> bool:
        return not ledger._outage.is_active

    await _until(is_quiet)
    with capture_logs() as lines:
        proxy.be_silent()
        with pytest.raises(LedgerUnavailable):
            await ledger.reserve(reservation("lost"))
        ledger.settle(settlement(first, NOW))

        async def has_begun() -> bool:
            return ledger._outage.is_active and len(ledger._spool) > 0

        await _until(has_begun)
        proxy.speak(late=late)
        second = await once_admitted(ledger, "second")

        async def is_over() -> bool:
            return not ledger._outage.is_active and await books.count("usage_event") == 1

        await _until(is_over)
        ledger.settle(settlement(second, NOW))
        await ledger.drain()
    await proxy.cut()
    names = [line["event"] for line in lines]
    assert names.index("ledger_outage_began") < names.index("ledger_outage_ended")
    assert await books.count("usage_event") == await books.count("settled_request") == 2
    assert await books.count("hold") == 0
    assert await books.held_and_spent() == (0, 2 * COST)


async def test_who_has_no_hard_budget_goes_on_before_a_partition_is_noticed(
    make_ledger: MakeLedger, books: Books
) -> None:
    """Duty C21: the server is silent and no limit for its answer is over, so it may only be slow: who is not limited
    waits for a reservation's time, not for a statement's. The reservations that were given up commit when the packets
    arrive, and leave nothing."""
    for tenant in ("proj_hard", "proj_soft"):
        await books.add_tenant(tenant)
    hard = await books.add_budget(10**9, tenant_id="proj_hard")
    soft = await books.add_budget(1, tenant_id="proj_soft", is_hard=False)
    proxy = TcpProxy(books.database_url)
    await proxy.restore()
    ledger = await make_ledger(url=proxy.url, reserve_timeout_s=1.0, outage_grace_s=600)
    first = await once_admitted(ledger, "first")
    proxy.be_silent()
    holds = [await once_admitted(ledger, tenant, tenant) for tenant in ("proj_soft", "proj_free")]
    assert not any(hold.is_recorded for hold in holds)
    with pytest.raises(LedgerUnavailable):
        await ledger.reserve(reservation("refused", "proj_hard"))
    assert not ledger._outage.is_active
    for hold in (first, *holds):
        ledger.settle(settlement(hold, NOW))
    proxy.speak(late=True)
    await ledger.drain()
    await proxy.cut()
    assert await books.count("usage_event") == await books.count("settled_request") == 3
    assert await books.count("hold") == 0
    assert await books.held_and_spent(soft) == (0, COST)
    assert await books.held_and_spent(hard) == (0, 0)


@asynccontextmanager
async def _held_rows(books: Books) -> AsyncIterator[None]:
    """All budget rows are another session's, for as long as it takes."""
    async with books.database.transaction() as connection:
        await connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
        await connection.exec_driver_sql("SELECT * FROM budget_period FOR UPDATE")
        yield


async def test_what_commits_after_it_was_given_up_leaves_no_hold(
    make_ledger: MakeLedger, books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session waits for a lock on the server while we have gone: a discard that came first would find nothing to
    give back, and the hold would be made after it."""
    monkeypatch.setattr(
        "gateway.db.ANSWER_MARGIN_S", -58.0
    )  # two seconds, long before the server's own limits
    monkeypatch.setattr("gateway.db.LOCK_TIMEOUT_MS", 59_000)
    await books.add_budget(10**9)
    ledger = await make_ledger(database={"statement_timeout_s": 60})
    first = await once_admitted(ledger, "first")

    async def is_resolved() -> bool:
        return not ledger._reserver._doubts and ledger._settler.is_idle

    await _until(is_resolved)
    async with _held_rows(books):
        with pytest.raises(LedgerUnavailable):
            await ledger.reserve(reservation("lost"))
        assert ledger._reserver._doubts
        await _until(is_resolved)
    second = await once_admitted(ledger, "second")
    for hold in (first, second):
        ledger.release(hold.request_id, "test")
    await ledger.drain()
    assert await books.count("hold") == 0
    assert await books.held_and_spent() == (0, 0)


async def test_rows_that_somebody_holds_are_no_outage(
    make_ledger: MakeLedger, books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server says that nothing has taken place: who needs these rows is refused, what is to be charged waits on the
    disk, and everybody else goes on."""
    monkeypatch.setattr("gateway.db.LOCK_TIMEOUT_MS", 200)
    await books.add_budget(10**9)
    await books.add_tenant("proj_b")
    ledger = await make_ledger()
    first = await ledger.reserve(reservation("first"))
    with capture_logs() as lines:
        async with _held_rows(books):
            with pytest.raises(LedgerUnavailable):
                await ledger.reserve(reservation("refused"))
            ledger.settle(settlement(first, NOW))

            async def is_spooled() -> bool:
                return len(ledger._spool) > 0

            await _until(is_spooled)
            other = await ledger.reserve(reservation("other", "proj_b"))
            assert other.is_recorded
            assert not ledger._reserver._doubts

        async def is_charged() -> bool:
            return await books.count("usage_event") == 1

        await _until(is_charged)
    ledger.release(RequestId("other"), "test")
    await ledger.drain()
    names = {line["event"] for line in lines}
    assert "ledger_rows_held" in names
    assert "ledger_outage_began" not in names
    assert await books.held_and_spent() == (0, COST)


async def test_a_ledger_of_which_a_loop_was_ended_is_not_ready(make_ledger: MakeLedger) -> None:
    ledger = await make_ledger()
    assert (ledger.is_ready, ledger.is_running) == (True, True)
    ledger._helpers[0].cancel()
    await asyncio.gather(ledger._helpers[0], return_exceptions=True)
    assert (ledger.is_ready, ledger.is_running) == (False, False)
