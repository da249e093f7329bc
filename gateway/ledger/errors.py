"""What the ledger refuses, by name. A caller sees only those that are part of the error tree."""

from gateway.errors import (
    InsufficientQuota,
    InvalidRequest,
    InvalidValue,
    NotFound,
    QuotaCode,
    ServiceUnavailable,
)
from gateway.money import format_usd

__all__ = [
    "LIMIT_MAX_NANOUSD",
    "BudgetExceeded",
    "DuplicateSettlement",
    "EntryConflict",
    "LedgerUnavailable",
    "LimitTooHigh",
    "MoreThanCharged",
    "NoSuchBudget",
    "NoSuchRequest",
    "ReservationFailed",
]

LIMIT_MAX_NANOUSD = 1 << 62
"""Of a budget: what is spent and held beside it still fits a bigint."""

_CODES: dict[str, QuotaCode] = {
    "organization": "organization_spend_limit_exceeded",
    "tenant": "project_spend_limit_exceeded",
}
_NAMES = {"organization": "organization", "tenant": "project", "key": "API key"}


class BudgetExceeded(InsufficientQuota):
    """A hard budget has no room for the request's upper bound."""

    def __init__(self, scope: str) -> None:
        super().__init__(
            f"You exceeded the spend limit of your {_NAMES[scope]}. Check its budget and billing details.",
            _CODES.get(scope, "insufficient_quota"),
        )
        self.scope = scope


class LedgerUnavailable(ServiceUnavailable):
    """Postgres is away or too slow to admit a request that needs it."""

    def __init__(self, retry_after_s: float = 1.0) -> None:
        super().__init__("The service cannot admit the request right now. Please retry.", retry_after_s)


class ReservationFailed(Exception):
    """The database refused this one reservation, for example a request id that has a hold already: a bug of ours."""


class DuplicateSettlement(Exception):
    """A request was settled or released that is not open here: it was settled before, or never reserved."""


class EntryConflict(InvalidRequest):
    """One idempotency key, two different entries: the second is a mistake of whoever made the key."""

    def __init__(self) -> None:
        super().__init__("This idempotency key was used for another entry.", "idempotency_key")


class NoSuchRequest(NotFound):
    """Never settled, or another tenant's."""

    def __init__(self, request_id: str) -> None:
        super().__init__(f"No settled request '{request_id}' in this project.")


class NoSuchBudget(NotFound):
    """Unknown, or not prepaid: only a prepaid budget has a balance."""

    def __init__(self, budget_id: str) -> None:
        super().__init__(f"No prepaid budget '{budget_id}'.")


class LimitTooHigh(InvalidValue):
    """The top-up would make the budget larger than any budget may be."""

    def __init__(self) -> None:
        super().__init__(f"A budget is at most {format_usd(LIMIT_MAX_NANOUSD)}.", "amount_nanousd")


class MoreThanCharged(InvalidValue):
    """More would be given or taken back than there is."""

    def __init__(self, there_is_nanousd: int) -> None:
        super().__init__(f"At most {format_usd(there_is_nanousd)} can be taken back.", "amount_nanousd")
