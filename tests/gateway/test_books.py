"""The ledgers that tests make."""

from datetime import timedelta

import pytest

from tests.fakes.clock import ManualClock
from tests.gateway.books import Books, MakeLedger, books, make_ledger
from tests.gateway.ledger.builders import reservation, settlement
from tests.instants import just_now

__all__ = ["books", "make_ledger"]


async def test_what_would_be_late_on_another_day_needs_a_clock_of_its_own(
    make_ledger: MakeLedger, books: Books
) -> None:
    yesterday = just_now() - timedelta(days=1)
    machine, hand = await make_ledger("gw-1"), await make_ledger("gw-2", clock=ManualClock(yesterday))
    hold = await machine.reserve(reservation("req_1"))
    with pytest.raises(AssertionError, match="just_now"):
        machine.settle(settlement(hold, yesterday))
    machine.settle(settlement(hold, just_now()))
    hand.settle(settlement(await hand.reserve(reservation("req_2")), yesterday))
    await machine.drain()
    await hand.drain()
    assert await books.count("usage_event") == 2
