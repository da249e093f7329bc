"""Leases: drawn only within their amount and their periods, renewed when nobody needs them any more."""

from datetime import UTC, datetime, timedelta

import pytest

from gateway.ids import RequestId, TenantId
from gateway.ledger.leases import LEASE_TTL, Granted, Leases
from gateway.ledger.repository.budgets import BudgetLimit
from gateway.ledger.types import Hold, Take
from tests.fakes.clock import ManualClock
from tests.gateway.ledger.builders import reservation

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
PROJECT = TenantId("proj_a")
HARD = BudgetLimit("b", "tenant", "proj_a", None, "monthly", "UTC", 100, True)
SOFT = BudgetLimit("s", "tenant", "proj_a", None, "daily", "UTC", 1, False)


class Desk:
    """Where leases are taken and given back."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW)
        self.leases = Leases(self.clock)
        self.given_back: list[RequestId] = []
        self.room = True
        self.taken = 0

    async def take(self, tenant_id: TenantId, amount: int) -> Granted | None:
        if not self.room:
            return None
        self.taken += 1
        now = self.clock.now()
        takes = tuple(Take(*limit.key_at(now), amount) for limit in (HARD, SOFT))
        asked = reservation(f"lease_{self.taken}", tenant_id, "")
        return Granted(Hold(asked, amount, takes, now, now + LEASE_TTL, is_lease=True), (HARD, SOFT))

    async def refresh(self, amount: int = 10, revision: int = 1, idle: bool = True) -> None:
        wanted = {PROJECT: amount} if amount else {}
        await self.leases.refresh(wanted, revision, self.take, self.given_back.append, idle)

    def draw(self, name: str, amount: int) -> str | None:
        return self.leases.draw(RequestId(name), PROJECT, amount)

    def settle(self, name: str, lease: str) -> None:
        hold = Hold(reservation(name), 1, (), NOW, NOW, is_recorded=False, lease_id=RequestId(lease))
        self.leases.handed_over(hold)


@pytest.fixture
async def desk() -> Desk:
    desk = Desk()
    await desk.refresh()
    return desk


async def test_no_more_is_drawn_than_the_lease_holds(desk: Desk) -> None:
    assert [desk.draw(f"req_{number}", 4) for number in range(3)] == ["lease_1", "lease_1", None]
    assert desk.draw("req_3", 2) == "lease_1"
    assert desk.draw("req_4", 1) is None
    assert desk.leases.draw(RequestId("req_5"), TenantId("proj_b"), 0) is None


async def test_nothing_is_drawn_in_a_period_that_the_lease_does_not_hold_money_in(desk: Desk) -> None:
    desk.clock.step_wall(86_400 / 2 - 1)  # a second before the month ends
    assert desk.draw("req_1", 1) == "lease_1"
    desk.clock.step_wall(1)
    assert desk.draw("req_2", 1) is None
    desk.settle("req_1", "lease_1")
    await desk.refresh()
    assert desk.given_back == ["lease_1"]
    assert desk.draw("req_3", 1) == "lease_2"


async def test_a_used_lease_stays_until_what_was_drawn_is_settled(desk: Desk) -> None:
    assert desk.draw("req_1", 4) == "lease_1"
    await desk.refresh()
    desk.settle("req_1", "lease_1")
    await desk.refresh(idle=False)
    desk.leases.give_back_unused(desk.given_back.append)
    assert desk.given_back == []
    await desk.refresh()
    assert desk.given_back == ["lease_1"]
    assert desk.draw("req_2", 10) == "lease_2"


@pytest.mark.parametrize("change", [{"amount": 11}, {"revision": 2}, {"amount": 0}])
async def test_other_budgets_or_another_allowance_make_a_new_lease(
    desk: Desk, change: dict[str, int]
) -> None:
    await desk.refresh()
    assert (desk.taken, desk.given_back) == (1, [])
    await desk.refresh(**change)
    assert desk.given_back == ["lease_1"]
    assert desk.taken == (1 if change == {"amount": 0} else 2)


async def test_a_lease_is_renewed_long_before_it_expires() -> None:
    desk = Desk()
    desk.clock.step_wall(-86_400 * 20)
    await desk.refresh()
    desk.clock.step_wall((LEASE_TTL / 2 + timedelta(seconds=1)).total_seconds())
    await desk.refresh()
    assert desk.given_back == ["lease_1"]


async def test_without_room_there_is_none_and_an_unused_one_ends_with_the_run(desk: Desk) -> None:
    desk.leases.give_back_unused(desk.given_back.append)
    assert desk.given_back == ["lease_1"]
    desk.room = False
    await desk.refresh()
    assert desk.draw("req_1", 1) is None
