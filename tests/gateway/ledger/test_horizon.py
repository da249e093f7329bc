"""The order of the times that keeps a request from being settled twice."""

from datetime import timedelta

from engine.server.journal import KEEP_CLOSED_S
from gateway.ledger.closing import CLOSE_AFTER, OPEN_FOR_SURE
from gateway.ledger.horizon import (
    BACKUP_AGE_MAX,
    EVIDENCE_AGE_MAX,
    GUARD_KEPT,
    IDEMPOTENCY_WINDOW,
    JOURNAL_KEPT,
    SPOOL_AGE_MAX,
)


def test_the_guard_outlives_everything_that_could_bring_a_request_up_again() -> None:
    assert JOURNAL_KEPT.total_seconds() == KEEP_CLOSED_S, "the engine's own time"
    oldest = max(JOURNAL_KEPT, SPOOL_AGE_MAX, IDEMPOTENCY_WINDOW, BACKUP_AGE_MAX)
    assert oldest < EVIDENCE_AGE_MAX
    assert timedelta(days=1) <= GUARD_KEPT - EVIDENCE_AGE_MAX, "for clocks, and for time in a queue"


def test_a_backup_is_restored_with_the_journals_since() -> None:
    """An older backup knows what was settled, but journals do not reach back to it."""
    assert JOURNAL_KEPT <= BACKUP_AGE_MAX


def test_what_needs_no_look_is_younger_than_any_period_that_closes() -> None:
    assert timedelta(days=1) <= CLOSE_AFTER - OPEN_FOR_SURE
