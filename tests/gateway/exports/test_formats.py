"""What the formats of single events have in common."""

from __future__ import annotations

from gateway.exports.formats import add_events
from gateway.exports.repository.events import EVENT_SUMS
from gateway.exports.types import Tally


def test_events_are_summed_per_tenant() -> None:
    tally: Tally = {}
    row = {"tenant_id": "a", **dict.fromkeys(EVENT_SUMS, 2)}
    add_events(tally, [row, {**row, "amount_nanousd": -5}, {**row, "tenant_id": "b"}])
    assert tally["a"]["events"] == 2
    assert tally["a"]["amount_nanousd"] == -3
    assert tally["b"]["output_nanousd"] == 2
