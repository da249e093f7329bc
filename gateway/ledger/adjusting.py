"""What an operator does to the money by hand: adjust a request's price, credit a tenant, top up a prepaid balance.

Each is a new row, never a changed one, and happens once per idempotency key, in the caller's transaction, so that
an audit row can stand beside it. It does not know who may ask for it, or why.
"""

from dataclasses import dataclass
from uuid import UUID

from gateway.clock import Clock
from gateway.db import WriteConnection, WriteSession
from gateway.ids import IdSource, KeyId, RequestId, TenantId
from gateway.ledger.errors import (
    LIMIT_MAX_NANOUSD,
    EntryConflict,
    LimitTooHigh,
    MoreThanCharged,
    NoSuchBudget,
    NoSuchRequest,
)
from gateway.ledger.repository import entries as sql
from gateway.ledger.repository.budgets import limits_of, spend
from gateway.ledger.repository.settling import ensure_partition, month_of, write_events
from gateway.ledger.types import Entry

__all__ = ["Adjuster", "Adjustment", "Credit", "TopUp"]


@dataclass(frozen=True, slots=True)
class Adjustment:
    """`amount_nanousd` more for one settled request; negative is a refund, which never exceeds what was charged."""

    idempotency_key: str
    tenant_id: TenantId
    request_id: RequestId
    amount_nanousd: int
    reason: str
    created_by: str


@dataclass(frozen=True, slots=True)
class Credit:
    """A tenant pays this much less in the open period. Positive."""

    idempotency_key: str
    tenant_id: TenantId
    amount_nanousd: int
    reason: str
    created_by: str


@dataclass(frozen=True, slots=True)
class TopUp:
    """A prepaid budget gets this much more room; negative takes back what was not spent, or more. No usage event:
    what is paid in is no cost."""

    idempotency_key: str
    budget_id: str
    amount_nanousd: int
    reason: str
    created_by: str


class Adjuster:
    """Has no state. A repeated call returns the first one's entry with `is_repeated`; the same key with other
    content is EntryConflict."""

    def __init__(self, clock: Clock, ids: IdSource) -> None:
        self._clock = clock
        self._ids = ids

    async def adjust(self, session: WriteSession, wanted: Adjustment) -> Entry:
        """Raises NoSuchRequest (also for another tenant's), MoreThanCharged, EntryConflict."""
        connection = WriteConnection(await session.connection())
        entry = self._entry(
            "adjustment",
            wanted,
            tenant_id=wanted.tenant_id,
            request_id=wanted.request_id,
            event_id=self._ids.uuid7(),
        )
        if repeated := await _repeated(connection, entry):
            return repeated
        charged = await sql.lock_charged(connection, wanted.tenant_id, wanted.request_id)
        if charged is None:
            raise NoSuchRequest(wanted.request_id)
        if charged.amount_nanousd + wanted.amount_nanousd < 0:
            raise MoreThanCharged(charged.amount_nanousd)
        await _write(connection, entry, sql.adjustment_event(entry, charged))
        await self._spend(connection, entry, KeyId(charged.key_id))
        return entry

    async def credit(self, session: WriteSession, wanted: Credit) -> Entry:
        """Raises EntryConflict."""
        assert wanted.amount_nanousd > 0, "a credit is what the tenant gets"
        connection = WriteConnection(await session.connection())
        entry = self._entry(
            "credit",
            wanted,
            amount_nanousd=-wanted.amount_nanousd,
            tenant_id=wanted.tenant_id,
            event_id=self._ids.uuid7(),
        )
        if repeated := await _repeated(connection, entry):
            return repeated
        await _write(connection, entry, sql.credit_event(entry))
        await self._spend(connection, entry, None)
        return entry

    async def top_up(self, session: WriteSession, wanted: TopUp) -> Entry:
        """Raises NoSuchBudget (also for one that is not prepaid), MoreThanCharged below zero, LimitTooHigh,
        EntryConflict."""
        connection = WriteConnection(await session.connection())
        budget = await sql.lock_prepaid(connection, wanted.budget_id)
        if budget is None:
            raise NoSuchBudget(wanted.budget_id)
        tenant_id = TenantId(budget.tenant_id) if budget.tenant_id is not None else None
        entry = self._entry("top_up", wanted, tenant_id=tenant_id, budget_id=wanted.budget_id)
        if repeated := await _repeated(connection, entry):
            return repeated
        if budget.limit_nanousd + wanted.amount_nanousd < 0:
            raise MoreThanCharged(budget.limit_nanousd)
        if budget.limit_nanousd + wanted.amount_nanousd > LIMIT_MAX_NANOUSD:
            raise LimitTooHigh
        await sql.raise_limit(connection, wanted.budget_id, wanted.amount_nanousd)
        return entry

    def _entry(
        self,
        kind: str,
        wanted: Adjustment | Credit | TopUp,
        *,
        tenant_id: TenantId | None,
        amount_nanousd: int | None = None,
        request_id: RequestId | None = None,
        budget_id: str | None = None,
        event_id: UUID | None = None,
    ) -> Entry:
        return Entry(
            idempotency_key=wanted.idempotency_key,
            kind=kind,
            tenant_id=tenant_id,
            amount_nanousd=wanted.amount_nanousd if amount_nanousd is None else amount_nanousd,
            reason=wanted.reason,
            created_by=wanted.created_by,
            occurred_at=self._clock.now(),
            request_id=request_id,
            budget_id=budget_id,
            event_id=event_id,
        )

    async def _spend(self, connection: WriteConnection, entry: Entry, key_id: KeyId | None) -> None:
        """On the rows of today's periods: those of a closed one are history."""
        assert entry.tenant_id is not None
        limits = await limits_of(connection, [entry.tenant_id], [key_id] if key_id is not None else [])
        keys = [limit.key_at(entry.occurred_at) for limit in limits.on(entry.tenant_id, key_id or "")]
        await spend(connection, dict.fromkeys(keys, entry.amount_nanousd))


async def _repeated(connection: WriteConnection, entry: Entry) -> Entry | None:
    """None for the first call with this key, which now owns it: another one waits for this transaction."""
    earlier = await sql.claim(connection, entry)
    if earlier is None:
        return None
    if _content(earlier) != _content(entry):
        raise EntryConflict
    return earlier


def _content(entry: Entry) -> tuple[object, ...]:
    return entry.kind, entry.tenant_id, entry.amount_nanousd, entry.request_id, entry.budget_id, entry.reason


async def _write(connection: WriteConnection, entry: Entry, event: sql.EventRow) -> None:
    await ensure_partition(connection, month_of(entry.occurred_at))
    await write_events(connection, [event], [])
