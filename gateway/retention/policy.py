"""What is kept, for how long, and what becomes of each table when its tenant goes. Data: no I/O.

Every table that names a tenant is in `HANDLING`; a table that is missing there fails a test, so that nobody adds one
without deciding what a deletion does to it. docs/retention.md says the same in words.
"""

from datetime import timedelta
from enum import Enum
from typing import Final

__all__ = [
    "BATCHES_KEPT",
    "DELIVERIES_KEPT",
    "EPOCHS_KEPT",
    "FIRINGS_KEPT",
    "HANDLING",
    "HIDDEN_COLUMNS",
    "INSTANCES_KEPT",
    "JOURNAL_ROWS_KEPT",
    "MINUTES_KEPT",
    "REFUSALS_KEPT",
    "SAMPLES_KEPT",
    "SESSIONS_KEPT",
    "SLO_HOURS_KEPT",
    "SLO_MINUTES_KEPT",
    "Handling",
]

JOURNAL_ROWS_KEPT = timedelta(days=14)
"""What was read of journals and has been matched. Longer than the journals themselves, so that a journal that is read
again is recognised."""
INSTANCES_KEPT = timedelta(days=7)
EPOCHS_KEPT = timedelta(days=90)
MINUTES_KEPT = timedelta(days=62)
"""Rollups by minute; longer than any open billing period. Hours and days are kept for ever."""
DELIVERIES_KEPT = timedelta(days=30)
"""Of alerts, with the address each went to, once they are over; the records stay."""
FIRINGS_KEPT = timedelta(days=62)
"""What fired, and which budgets refused, in periods with an end: longer than the longest, so that nothing fires twice."""
BATCHES_KEPT = timedelta(days=30)
"""After they have ended; their files have times of their own."""
REFUSALS_KEPT = timedelta(days=62)
"""Longer than the window of any objective."""
SLO_MINUTES_KEPT = timedelta(days=8)
"""What counts towards objectives, by minute: longer than the longest window that minutes are read for, which is six
hours, and a week for charts."""
SLO_HOURS_KEPT = timedelta(days=62)
"""The same by hour; longer than the window of any objective. Days are kept for ever."""

SESSIONS_KEPT = timedelta(days=30)
"""Of the console, after they have ended or run out: long enough to see where somebody signed in."""


SAMPLES_KEPT = timedelta(days=1)
"""Of what replicas say of themselves every few seconds."""


class Handling(Enum):
    """What a deletion of the tenant does to a table."""

    FACT = "kept: the money, under ids that then stand for nobody"
    DERIVED = "kept: sums of facts"
    RECORD = "kept: who did what, and what was delivered"
    PASSING = "gone by itself, once what is on its way has arrived"
    DELETED = "deleted"


HANDLING: Final = {
    # In this order they can be deleted: what refers to others comes first.
    "spend_alert": Handling.DELETED,
    "objective": Handling.DELETED,
    "alert_silence": Handling.DELETED,
    "webhook_endpoint": Handling.DELETED,
    "batch_result": Handling.DELETED,
    "batch": Handling.DELETED,
    "stored_file": Handling.DELETED,
    "idempotent_request": Handling.DELETED,
    "rate_limit": Handling.DELETED,
    "model_permission": Handling.DELETED,
    "route": Handling.DELETED,
    "outage_allowance": Handling.DELETED,
    "budget": Handling.DELETED,
    "user_pseudonym": Handling.DELETED,
    "project_member": Handling.DELETED,
    "api_key": Handling.DELETED,
    "service_account": Handling.DELETED,
    "usage_event": Handling.FACT,
    "attempt": Handling.FACT,
    "ledger_entry": Handling.FACT,
    "settled_request": Handling.FACT,
    "meter_event": Handling.FACT,
    "stripe_customer": Handling.FACT,
    "rollup_minute": Handling.DERIVED,
    "rollup_hour": Handling.DERIVED,
    "rollup_day": Handling.DERIVED,
    "refusal_minute": Handling.DERIVED,
    "slo_minute": Handling.DERIVED,
    "slo_hour": Handling.DERIVED,
    "slo_day": Handling.DERIVED,
    "latency_minute": Handling.DERIVED,
    "latency_hour": Handling.DERIVED,
    "latency_day": Handling.DERIVED,
    "audit_log": Handling.RECORD,
    "alert_record": Handling.RECORD,
    "alert_episode": Handling.RECORD,
    "export_run": Handling.RECORD,
    "review_item": Handling.RECORD,
    "hold": Handling.PASSING,
    "outbox": Handling.PASSING,
    "objective_state": Handling.PASSING,
}
HIDDEN_COLUMNS: Final = frozenset(
    {"secret_hmac", "pepper_id", "key_hash", "body_hash", "answer_sealed", "secrets_sealed"}
)
"""Of no use to the tenant, and of use to somebody who finds the copy."""
