"""Who goes on while Postgres is away."""

from structlog.testing import capture_logs

from gateway.ledger.batcher import CommitUnknown
from gateway.ledger.outage import Outage
from tests.fakes.clock import ManualClock
from tests.gateway.ledger.builders import reservation


def outage_with(*hard: tuple[str | None, str | None]) -> tuple[Outage, ManualClock]:
    clock = ManualClock()
    outage = Outage(clock, grace_s=30)
    outage.remember_hard_scopes(hard)
    return outage, clock


def test_tenants_without_a_hard_budget_go_on_for_the_grace_time_only() -> None:
    outage, clock = outage_with(("proj_b", None))
    assert not outage.may_go_on(reservation("r"))
    outage.begin(OSError("away"))
    assert outage.may_go_on(reservation("r"))
    clock.advance(29)
    outage.begin(OSError("still away"))
    assert outage.may_go_on(reservation("r"))
    clock.advance(2)
    assert not outage.may_go_on(reservation("r"))
    outage.end()
    assert not outage.is_active


def test_silence_counts_as_an_outage_for_those_who_wait_and_for_the_grace_time() -> None:
    outage, clock = outage_with(("proj_b", None), ("proj_a", "key_b"))
    outage.suspect()
    assert not outage.is_active
    assert outage.may_go_on(reservation("r"))
    assert not outage.may_go_on(reservation("r", "proj_b"))
    assert outage.may_draw(reservation("r"))
    assert not outage.may_draw(reservation("r", key_id="key_b"))
    clock.advance(29)
    outage.suspect()
    assert outage.may_go_on(reservation("r"))
    clock.advance(2)
    assert not outage.may_go_on(reservation("r"))
    outage.end()
    assert not outage.may_draw(reservation("r"))


def test_a_hard_budget_on_any_scope_refuses() -> None:
    for scope in ((None, None), ("proj_a", None), ("proj_a", "key_a")):
        outage, _ = outage_with(scope)
        outage.begin(OSError("away"))
        assert not outage.may_go_on(reservation("r"))
    outage, _ = outage_with(("proj_a", "key_b"))
    outage.begin(OSError("away"))
    assert outage.may_go_on(reservation("r"))


def test_who_never_saw_the_budgets_refuses_everybody() -> None:
    outage = Outage(ManualClock(), grace_s=30)
    outage.begin(OSError("away"))
    assert not outage.may_go_on(reservation("r"))


def test_the_log_says_what_began_it_even_of_errors_that_say_nothing() -> None:
    unknown = CommitUnknown()
    unknown.__cause__ = TimeoutError()
    with capture_logs() as lines:
        Outage(ManualClock(), grace_s=30).begin(unknown)
    assert [line["error"] for line in lines] == ["CommitUnknown: TimeoutError"]
