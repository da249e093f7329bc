"""Every source is called by an event that exists, and a ticket of a burn rate stays longer than a page."""

from __future__ import annotations

from gateway.alerts.kinds import KINDS
from gateway.events import EVENT_TYPES


def test_sources_announce_events_that_there_are() -> None:
    assert {kind.firing for kind in KINDS.values() if kind.firing} <= set(EVENT_TYPES)
    assert {kind.resolved for kind in KINDS.values() if kind.resolved} <= set(EVENT_TYPES)


def test_holds() -> None:
    burn = KINDS["slo.burn_rate"]
    assert burn.hold_of("page") < burn.hold_of("ticket")
    assert KINDS["replica.down"].hold_of("ticket") == KINDS["replica.down"].hold_of("page")
