"""Known limits: of one revision only, by the period of the moment, and never more pairs than the bound."""

from datetime import UTC, datetime

import pytest

from gateway.ledger import known
from gateway.ledger.known import KnownLimits
from gateway.ledger.repository.budgets import BudgetLimit, Limits
from gateway.ledger.types import BudgetKey
from tests.gateway.ledger.builders import reservation

NOW = datetime(2026, 11, 30, 23, 30, tzinfo=UTC)
ORGANISATION = BudgetLimit("org", "organization", None, None, "monthly", "UTC", 5, True)
TENANT = BudgetLimit("ten", "tenant", "proj_a", None, "daily", "Europe/Berlin", 7, False)
KEY = BudgetLimit("key", "key", "proj_a", "key_a", "prepaid", "UTC", 9, True)
ALL = (ORGANISATION, TENANT, KEY)


def test_a_pair_is_known_once_it_was_learnt_with_what_covers_it() -> None:
    limits, one, other = KnownLimits(), reservation("r"), reservation("r", key_id="key_b")
    assert limits.at([one], NOW) is None
    limits.learn(Limits(3, ALL), [one, other])
    assert limits.revision == 3
    assert limits.at([other], NOW) == {
        BudgetKey("org", "2026-11"): ORGANISATION,
        BudgetKey("ten", "2026-12-01"): TENANT,
    }
    assert set(limits.at([one, other], NOW) or ()) == {
        BudgetKey("org", "2026-11"), BudgetKey("ten", "2026-12-01"), BudgetKey("key", "prepaid")
    }  # fmt: skip
    assert limits.at([one, reservation("r", "proj_b")], NOW) is None


def test_another_revision_forgets_what_the_earlier_one_had() -> None:
    limits, one, other = KnownLimits(), reservation("r"), reservation("r", "proj_b")
    limits.learn(Limits(3, ALL), [one])
    limits.learn(Limits(4, ()), [other])
    assert limits.at([other], NOW) == {}
    assert limits.at([one], NOW) is None


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "PAIRS_MAX", 10)
    limits = KnownLimits()
    for number in range(25):
        limits.learn(Limits(1, ALL), [reservation("r", f"proj_{number}")])
        assert len(limits._on) <= 10
    assert limits.at([reservation("r", "proj_24")], NOW) is not None
