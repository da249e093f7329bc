"""How long evidence may come, and how long the once-only guard is remembered. The order of these times is what keeps a
request from being settled twice: the guard outlives everything that could bring its request up again.
"""

from datetime import timedelta

__all__ = [
    "BACKUP_AGE_MAX",
    "EVIDENCE_AGE_MAX",
    "GUARD_KEPT",
    "IDEMPOTENCY_WINDOW",
    "JOURNAL_KEPT",
    "SPOOL_AGE_MAX",
]

JOURNAL_KEPT = timedelta(days=7)
"""Our engines delete their journals after this."""
IDEMPOTENCY_WINDOW = timedelta(hours=24)
SPOOL_AGE_MAX = timedelta(days=30)
"""How long a gateway's volume may lie aside before its spool is replayed."""
BACKUP_AGE_MAX = timedelta(days=30)
"""The oldest backup that may be restored and still know what was settled."""
EVIDENCE_AGE_MAX = timedelta(days=40)
"""Older evidence goes to the review list and never settles by itself: its guard may be forgotten."""
GUARD_KEPT = timedelta(days=45)
"""How long a row of settled_request is kept. The margin over the above is for clocks, and for time in a queue."""
