"""Tables of the ledger, by what they are for."""

from gateway.ledger.models.derived import Outbox, RefusalMinute, RollupDay, RollupHour, RollupMinute
from gateway.ledger.models.money import (
    Attempt,
    Budget,
    BudgetPeriod,
    BudgetRefusal,
    Hold,
    LedgerEntry,
    OutageAllowance,
    SettledRequest,
    UsageEvent,
    UserPseudonym,
)
from gateway.ledger.models.sources import (
    ConfigRevision,
    EngineEpoch,
    GatewayInstance,
    JournalAttempt,
    JournalCursor,
)
from gateway.ledger.models.upkeep import BillingPeriod, ReviewItem

__all__ = [
    "Attempt",
    "BillingPeriod",
    "Budget",
    "BudgetPeriod",
    "BudgetRefusal",
    "ConfigRevision",
    "EngineEpoch",
    "GatewayInstance",
    "Hold",
    "JournalAttempt",
    "JournalCursor",
    "LedgerEntry",
    "OutageAllowance",
    "Outbox",
    "RefusalMinute",
    "ReviewItem",
    "RollupDay",
    "RollupHour",
    "RollupMinute",
    "SettledRequest",
    "UsageEvent",
    "UserPseudonym",
]
