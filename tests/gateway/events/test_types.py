"""What an event is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gateway.events import EVENT_TYPES, TENANT_EVENT_TYPES, Event

EVENT = Event("budget.exhausted", "proj_a", "budget_1 2026-11", {}, datetime(2026, 11, 30, tzinfo=UTC))


def test_the_id_says_which_event_it_is_and_nothing_else_changes_it() -> None:
    later = replace(EVENT, occurred_at=datetime(2027, 1, 1, tzinfo=UTC), payload={"n": 1})
    others = [
        replace(EVENT, key="budget_1 2026-12"),
        replace(EVENT, tenant_id="proj_b"),
        replace(EVENT, tenant_id=None),
        replace(EVENT, type="budget.threshold_reached"),
    ]
    assert later.id == EVENT.id
    assert len({EVENT.id, *(other.id for other in others)}) == 5


def test_the_operators_own_business_has_no_tenant() -> None:
    assert set(TENANT_EVENT_TYPES) < set(EVENT_TYPES)
    assert len(EVENT_TYPES) == len(set(EVENT_TYPES))
    with pytest.raises(AssertionError, match="own business"):
        replace(EVENT, type="ledger.drift")
    with pytest.raises(AssertionError, match=r"budget\.unheard_of"):
        replace(EVENT, type="budget.unheard_of")  # type: ignore[arg-type]  # what a typo would be
    assert replace(EVENT, type="ledger.drift", tenant_id=None).id
