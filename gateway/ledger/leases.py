"""Leased allowances: what a tenant with a hard budget may still spend at this gateway while the database is away.

A lease is an ordinary hold of one gateway on the tenant's and the organisation's budgets, taken while the database is
there. What is admitted under it is drawn from it: its settlement takes the request's bound out of the lease in the
transaction that charges it, so held + spent never passes a limit. A lease is renewed when it was used, when budgets
change and when a period ends; one of a dead gateway is given back when nothing can be drawn from it any more. A key
with a hard budget of its own has no lease. By default nobody has an allowance.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from gateway.clock import Clock
from gateway.ids import RequestId, TenantId
from gateway.ledger.repository.budgets import BudgetLimit
from gateway.ledger.types import Hold

__all__ = ["LEASE_TTL", "Granted", "Leases"]

LEASE_TTL = timedelta(days=1)
"""Longer than any outage that this is for: what was drawn must find the lease when it is settled."""


@dataclass(frozen=True, slots=True)
class Granted:
    """A lease's hold and the limits that it was decided by."""

    hold: Hold
    limits: tuple[BudgetLimit, ...]


@dataclass(slots=True, eq=False)
class _Lease:
    granted: Granted
    revision: int
    left_nanousd: int
    open: set[RequestId] = field(default_factory=set)
    """Drawn, and not yet in the settler's hands."""

    @property
    def is_used(self) -> bool:
        return bool(self.open) or self.left_nanousd < self.granted.hold.amount_nanousd

    def counts_at(self, now: datetime) -> bool:
        """It holds money in the very rows that a request of this moment would be decided by."""
        hard = {limit.key_at(now) for limit in self.granted.limits if limit.is_hard}
        hold = self.granted.hold
        return hold.reserved_at <= now < hold.expires_at and hard <= {take.key for take in hold.takes}


class Leases:
    """Those of one gateway run, by tenant."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[TenantId, _Lease] = {}

    def draw(self, request_id: RequestId, tenant_id: TenantId, amount_nanousd: int) -> RequestId | None:
        """The lease that this request may spend from, or None."""
        lease = self._held.get(tenant_id)
        if lease is None or lease.left_nanousd < amount_nanousd or not lease.counts_at(self._clock.now()):
            return None
        lease.left_nanousd -= amount_nanousd
        lease.open.add(request_id)
        return lease.granted.hold.request_id

    def handed_over(self, hold: Hold) -> None:
        """Its settlement is in the settler's hands."""
        if hold.lease_id is not None:
            for lease in self._held.values():
                lease.open.discard(hold.request_id)

    async def refresh(
        self,
        wanted: Mapping[TenantId, int],
        revision: int,
        take: Callable[[TenantId, int], Awaitable[Granted | None]],
        give_back: Callable[[RequestId], None],
        is_settler_idle: bool,
    ) -> None:
        """One lease per tenant in `wanted`. A used one is replaced once everything drawn from it is settled."""
        for tenant_id, lease in list(self._held.items()):
            if lease.open or (lease.is_used and not is_settler_idle):
                continue
            if not self._is_good(lease, wanted.get(tenant_id), revision):
                del self._held[tenant_id]
                give_back(lease.granted.hold.request_id)
        for tenant_id in wanted.keys() - self._held.keys():
            granted = await take(tenant_id, wanted[tenant_id])
            if granted is not None:
                self._held[tenant_id] = _Lease(granted, revision, granted.hold.amount_nanousd)

    def give_back_unused(self, give_back: Callable[[RequestId], None]) -> None:
        """At the end of this run. A used one waits for the next run, which applies the spool first."""
        for tenant_id, lease in list(self._held.items()):
            if not lease.is_used:
                del self._held[tenant_id]
                give_back(lease.granted.hold.request_id)

    def _is_good(self, lease: _Lease, wanted_nanousd: int | None, revision: int) -> bool:
        now = self._clock.now()
        is_young = now - lease.granted.hold.reserved_at < LEASE_TTL / 2
        is_whole = lease.left_nanousd == wanted_nanousd
        return is_young and is_whole and lease.revision == revision and lease.counts_at(now)
