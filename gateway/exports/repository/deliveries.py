"""Rows of `meter_event` and `stripe_customer`: what is to be sent to Stripe, for whom, and how it went."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import func, select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert

from gateway.db import ReadSession, WriteSession
from gateway.exports.models import MeterEvent, StripeCustomer
from gateway.exports.stripe import MeterLine

__all__ = ["add_customer", "claim", "customers", "enqueue", "page", "record"]

_ROWS_AT_ONCE = 1_000
_CLAIM = text(
    """
    UPDATE meter_event SET attempts = attempts + 1, next_attempt_at = now() + :lease
    WHERE identifier IN (
        SELECT identifier FROM meter_event WHERE status = 'pending' AND next_attempt_at <= now()
        ORDER BY next_attempt_at, identifier LIMIT :limit FOR UPDATE SKIP LOCKED)
    RETURNING identifier
    """
)


async def enqueue(session: WriteSession, run_id: str, lines: Sequence[MeterLine]) -> None:
    """An event that is queued already is left as it is: it is the same."""
    for start in range(0, len(lines), _ROWS_AT_ONCE):
        rows = [
            {
                "identifier": line.identifier,
                "run_id": run_id,
                "tenant_id": line.tenant_id,
                "customer_id": line.customer_id,
                "event_name": line.event_name,
                "happened_at": line.happened_at,
                "amount_nanousd": line.amount_nanousd,
            }
            for line in lines[start : start + _ROWS_AT_ONCE]
        ]
        await session.execute(upsert(MeterEvent).values(rows).on_conflict_do_nothing())


async def claim(session: WriteSession, limit: int, lease: timedelta) -> Sequence[MeterEvent]:
    """Due events, the longest due first; nobody else gets them until the lease ends."""
    found = (await session.execute(_CLAIM, {"limit": limit, "lease": lease})).scalars().all()
    query = select(MeterEvent).where(MeterEvent.identifier.in_(found)).order_by(MeterEvent.identifier)
    return (await session.scalars(query)).all()


async def record(
    session: WriteSession,
    event: MeterEvent,
    status: str,
    error: str | None,
    retry_in: timedelta,
    unanswered_at: datetime | None,
) -> None:
    changed = {
        "status": status,
        "last_error": error,
        "next_attempt_at": func.now() + retry_in,
        "delivered_at": func.now() if status == "delivered" else None,
        "unanswered_at": unanswered_at,
    }
    await session.execute(update(MeterEvent).where(MeterEvent.identifier == event.identifier).values(changed))


async def page(
    session: ReadSession, tenant_id: str | None, status: str | None, after: str | None, limit: int
) -> Sequence[MeterEvent]:
    """By identifier: project by project, each in order of time."""
    query = select(MeterEvent).order_by(MeterEvent.identifier).limit(limit)
    if tenant_id is not None:
        query = query.where(MeterEvent.tenant_id == tenant_id)
    if status is not None:
        query = query.where(MeterEvent.status == status)
    if after is not None:
        query = query.where(MeterEvent.identifier > after)
    return (await session.scalars(query)).all()


async def add_customer(session: WriteSession, tenant_id: str, customer_id: str) -> StripeCustomer | None:
    """None if the tenant has one already."""
    statement = upsert(StripeCustomer).values(tenant_id=tenant_id, customer_id=customer_id)
    return (
        await session.execute(statement.on_conflict_do_nothing().returning(StripeCustomer))
    ).scalar_one_or_none()


async def customers(session: ReadSession, after: str | None, limit: int) -> Sequence[StripeCustomer]:
    query = select(StripeCustomer).order_by(StripeCustomer.tenant_id).limit(limit)
    if after is not None:
        query = query.where(StripeCustomer.tenant_id > after)
    return (await session.scalars(query)).all()
