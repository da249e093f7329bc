"""The border types refuse what cannot be."""

from datetime import UTC, datetime

import pytest

from gateway.ledger.types import AttemptRecord, Hold, Settlement
from tests.gateway.ledger.builders import reservation

AT = datetime(2026, 11, 29, tzinfo=UTC)
HOLD = Hold(reservation("r"), 1, (), AT, AT)


def test_more_cached_than_prompt_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        AttemptRecord.billed(0, None, None, prompt_tokens=1, cached_tokens=2, completion_tokens=0)


def test_unbilled_tokens_need_a_reason() -> None:
    with pytest.raises(AssertionError):
        AttemptRecord(0, None, None, 5, 0, 5, billed_prompt_tokens=5, billed_completion_tokens=4)


def test_two_attempts_with_one_number_are_a_bug() -> None:
    record = AttemptRecord.unbilled(0, None, None, "retry")
    with pytest.raises(AssertionError):
        Settlement(HOLD, "ok", AT, (record, record))


def test_times_are_aware() -> None:
    with pytest.raises(AssertionError):
        Settlement(HOLD, "ok", AT.replace(tzinfo=None))


def test_an_estimate_never_charges_more_than_the_maximum() -> None:
    assert reservation("r", estimated_prompt_tokens=500).fallback_prompt_tokens == 100
    assert reservation("r", estimated_prompt_tokens=7).fallback_prompt_tokens == 7
    assert reservation("r").fallback_prompt_tokens == 100
