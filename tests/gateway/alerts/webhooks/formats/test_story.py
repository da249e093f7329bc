"""What people are told of an event."""

from __future__ import annotations

from gateway.alerts.webhooks.formats.story import story_of
from tests.gateway.alerts.webhooks.formats.records import record


def test_what_the_payload_says_comes_first() -> None:
    told = story_of(
        record("slo.burn_rate.firing", summary="Fast\nburn", severity="ticket", incident="ep_1", burn=14.4)
    )
    assert (told.summary, told.severity, told.incident, told.is_end) == ("Fast burn", "ticket", "ep_1", False)
    assert "burn: 14.4" in told.details


def test_what_the_type_says_otherwise() -> None:
    down, up = (
        story_of(record("replica.down", incident="r1")),
        story_of(record("replica.recovered", incident="r1")),
    )
    assert (down.severity, down.is_end, up.severity, up.is_end) == ("page", False, "info", True)
    assert down.incident == up.incident == "r1"
    assert story_of(record("pool.kv_high", state="resolved")).is_end
    assert not story_of(record("pool.kv_high", state="firing")).is_end
    plain = story_of(record("export.failed", severity="odd", incident=""))
    assert (plain.summary, plain.severity, plain.incident) == ("export.failed", "ticket", "evt_1")
