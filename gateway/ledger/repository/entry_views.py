"""Readings of what operators did to the money by hand. Keyset-paged, newest first."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import select, tuple_

from gateway.db import ReadSession
from gateway.ids import RequestId, TenantId
from gateway.ledger.models import LedgerEntry
from gateway.ledger.types import Entry

__all__ = ["EntryViews"]


class EntryViews:
    async def page(
        self,
        session: ReadSession,
        kinds: Collection[str],
        tenant_id: str | None,
        after: str | None,
        limit: int,
    ) -> list[Entry]:
        """`after` is an idempotency key; one that no entry has ends the list."""
        order = tuple_(LedgerEntry.occurred_at, LedgerEntry.idempotency_key)
        query = select(LedgerEntry).where(LedgerEntry.kind.in_(sorted(kinds)))
        if tenant_id is not None:
            query = query.where(LedgerEntry.tenant_id == tenant_id)
        if after is not None:
            last = select(LedgerEntry.occurred_at, LedgerEntry.idempotency_key).where(
                LedgerEntry.idempotency_key == after
            )
            query = query.where(order < last.scalar_subquery())
        newest = query.order_by(LedgerEntry.occurred_at.desc(), LedgerEntry.idempotency_key.desc())
        return [_entry(row) for row in await session.scalars(newest.limit(limit))]

    async def entry(self, session: ReadSession, kinds: Collection[str], key: str) -> Entry | None:
        row = await session.get(LedgerEntry, key)
        return _entry(row) if row is not None and row.kind in kinds else None


def _entry(row: LedgerEntry) -> Entry:
    return Entry(
        idempotency_key=row.idempotency_key,
        kind=row.kind,
        tenant_id=TenantId(row.tenant_id) if row.tenant_id is not None else None,
        amount_nanousd=row.amount_nanousd,
        reason=row.reason,
        created_by=row.created_by,
        occurred_at=row.occurred_at,
        request_id=RequestId(row.request_id) if row.request_id is not None else None,
        budget_id=row.budget_id,
        event_id=row.event_id,
    )
