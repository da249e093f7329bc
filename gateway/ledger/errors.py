"""What the ledger refuses, by name. A caller sees only the two that are part of the error tree."""

from gateway.errors import InsufficientQuota, QuotaCode, ServiceUnavailable

__all__ = ["BudgetExceeded", "DuplicateSettlement", "LedgerUnavailable", "ReservationFailed"]

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
