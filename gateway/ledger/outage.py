"""Whether Postgres is away, since when, and who may go on without it.

Tenants without a hard budget go on for a grace time; their requests are charged when the server is back. Everybody
else is refused at once: a limit that cannot be looked up cannot be kept. The hard budgets are those of the last look,
which is at most a second older than the outage. A server that does not answer for as long as a reservation may wait is
away for whoever waits, though it may only be slow: what is admitted then is charged all the same.
"""

from collections.abc import Iterable

from gateway.clock import Clock
from gateway.db import is_busy, reason
from gateway.ledger.types import Reservation
from gateway.obs.logging import get_logger

__all__ = ["Outage"]


class Outage:
    def __init__(self, clock: Clock, grace_s: float) -> None:
        self._clock = clock
        self._grace_s = grace_s
        self._since_s: float | None = None
        self._silent_since_s: float | None = None
        self._hard_scopes: frozenset[tuple[str | None, str | None]] | None = None
        self._log = get_logger(__name__)

    @property
    def is_active(self) -> bool:
        return self._since_s is not None

    @property
    def _away_since_s(self) -> float | None:
        return self._since_s if self._since_s is not None else self._silent_since_s

    def begin(self, error: BaseException) -> None:
        """Noticed by whoever met it; only the first notice counts. A server that says that somebody else holds the rows
        is not away: who met that waits or is refused, and nobody else."""
        if is_busy(error):
            self._log.warning("ledger_rows_held", error=reason(error))
        elif self._since_s is None:
            self._since_s = self._clock.monotonic()
            self._log.error("ledger_outage_began", error=reason(error))

    def suspect(self) -> None:
        """Somebody has waited in vain, and nothing says yet that the server is away. Until it answers anybody."""
        if self._silent_since_s is None:
            self._silent_since_s = self._clock.monotonic()
            self._log.warning("ledger_silent")

    def end(self) -> None:
        self._silent_since_s = None
        if self._since_s is not None:
            self._log.warning("ledger_outage_ended", lasted_s=self._clock.monotonic() - self._since_s)
            self._since_s = None

    def remember_hard_scopes(self, scopes: Iterable[tuple[str | None, str | None]]) -> None:
        """(tenant, key) of every hard budget; (None, None) is the organisation's."""
        self._hard_scopes = frozenset(scopes)

    def may_go_on(self, reservation: Reservation) -> bool:
        since_s = self._away_since_s
        if since_s is None or self._hard_scopes is None:
            return False
        if self._clock.monotonic() - since_s > self._grace_s:
            return False
        tenant, key = reservation.tenant_id, reservation.key_id
        return self._hard_scopes.isdisjoint({(None, None), (tenant, None), (tenant, key)})

    def may_draw(self, reservation: Reservation) -> bool:
        """From a lease, which holds money of the tenant and the organisation, and none of a key's own hard budget. As
        long as it lasts: the money is held."""
        if self._away_since_s is None or self._hard_scopes is None:
            return False
        return (reservation.tenant_id, reservation.key_id) not in self._hard_scopes
