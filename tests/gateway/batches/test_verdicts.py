"""What errors mean for a line."""

from __future__ import annotations

import pytest

from gateway.batches.verdicts import PAUSE_S_MAX, Verdict, judge
from gateway.errors import (
    EngineFailed,
    GatewayError,
    InsufficientQuota,
    InvalidValue,
    ModelNotFound,
    Overloaded,
    RateLimited,
    UpstreamTimeout,
)


@pytest.mark.parametrize(
    ("error", "broken", "kind"),
    [
        (RateLimited("requests", "later", 2.0), 0, "wait"),
        (RateLimited("tokens", "never", None), 0, "final"),
        (Overloaded(), 9, "wait"),
        (EngineFailed(), 0, "again"),
        (UpstreamTimeout(), 1, "again"),
        (EngineFailed(), 2, "final"),
        (ModelNotFound("m"), 0, "final"),
        (InvalidValue("no", "n"), 0, "final"),
    ],
)
def test_who_is_at_fault_decides(error: GatewayError, broken: int, kind: str) -> None:
    assert judge(error, broken=broken, waits=0, is_alone=False).kind == kind


def test_an_empty_budget_is_waited_for_while_holds_may_be_in_the_way() -> None:
    poor = InsufficientQuota("no money")
    assert judge(poor, broken=0, waits=0, is_alone=False, patience=0).kind == "narrow"
    pauses = [judge(poor, broken=0, waits=0, is_alone=True, patience=left) for left in (5, 4, 3, 2, 1, 0)]
    assert [verdict.kind for verdict in pauses] == ["poor"] * 5 + ["final"]
    assert sorted(verdict.pause_s for verdict in pauses[:5]) == [verdict.pause_s for verdict in pauses[:5]]


def test_pauses_grow_and_have_an_end() -> None:
    def pause_s(waits: int) -> float:
        return judge(Overloaded(), broken=0, waits=waits, is_alone=False).pause_s

    assert [pause_s(waits) for waits in (0, 1, 2)] == [1.0, 2.0, 4.0]
    assert pause_s(50) == PAUSE_S_MAX
    assert judge(RateLimited("requests", "x", 3600.0), broken=0, waits=0, is_alone=True) == Verdict(
        "wait", PAUSE_S_MAX
    )
