"""Everything that the database knows of one request: its events, attempts, prices, and why it was corrected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import and_, select

from gateway.db import ReadSession
from gateway.ledger.models import (
    Attempt,
    JournalAttempt,
    LedgerEntry,
    SettledRequest,
    UsageEvent,
    UserPseudonym,
)
from gateway.routing.models import Price

__all__ = ["AttemptView", "CorrectionView", "RequestDetail", "request_detail"]

CORRECTIONS_MAX = 100


@dataclass(frozen=True, slots=True)
class AttemptView:
    """An attempt, and the engine's own record of it while its journal is kept."""

    attempt: Attempt
    journal: JournalAttempt | None


@dataclass(frozen=True, slots=True)
class CorrectionView:
    """A correction, and what was written down about it if a person made it."""

    event: UsageEvent
    entry: LedgerEntry | None


@dataclass(frozen=True, slots=True)
class RequestDetail:
    """`end_user`: whom the event's pseudonym stands for, unless that was erased."""

    event: UsageEvent
    end_user: str | None
    corrections: Sequence[CorrectionView]
    attempts: Sequence[AttemptView]
    prices: Sequence[Price]
    is_provisional: bool

    @property
    def net_nanousd(self) -> int:
        return self.event.amount_nanousd + sum(one.event.amount_nanousd for one in self.corrections)


async def request_detail(
    session: ReadSession, request_id: str, tenant_id: str | None
) -> RequestDetail | None:
    """None if there is no such request, or not one of this tenant. Corrections: the oldest 100."""
    events = await _events(session, request_id, tenant_id)
    original = next((view.event for view in events if view.event.corrects is None), None)
    if original is None:
        return None
    ids = (original.price_input_id, original.price_cached_input_id, original.price_output_id)
    prices = (await session.scalars(select(Price).where(Price.id.in_(ids)).order_by(Price.id))).all()
    settled = await session.get(SettledRequest, request_id)
    return RequestDetail(
        event=original,
        end_user=await _end_user(session, original),
        corrections=[view for view in events if view.event.corrects is not None],
        attempts=await _attempts(session, request_id),
        prices=prices,
        is_provisional=settled is not None and settled.is_provisional,
    )


async def _events(session: ReadSession, request_id: str, tenant_id: str | None) -> list[CorrectionView]:
    query = (
        select(UsageEvent, LedgerEntry)
        .outerjoin(
            LedgerEntry,
            and_(
                LedgerEntry.tenant_id == UsageEvent.tenant_id,
                LedgerEntry.occurred_at == UsageEvent.occurred_at,
                LedgerEntry.event_id == UsageEvent.event_id,
            ),
        )
        .where(UsageEvent.request_id == request_id, UsageEvent.kind != "credit")
        .order_by(UsageEvent.corrects.is_not(None), UsageEvent.occurred_at, UsageEvent.event_id)
        .limit(CORRECTIONS_MAX + 1)
    )
    if tenant_id is not None:
        query = query.where(UsageEvent.tenant_id == tenant_id)
    return [CorrectionView(event, entry) for event, entry in await session.execute(query)]


async def _end_user(session: ReadSession, event: UsageEvent) -> str | None:
    if event.user_ref is None:
        return None
    found = await session.get(UserPseudonym, (event.tenant_id, event.user_ref))
    return found.end_user if found is not None else None


async def _attempts(session: ReadSession, request_id: str) -> list[AttemptView]:
    query = (
        select(Attempt, JournalAttempt)
        .outerjoin(
            JournalAttempt,
            and_(JournalAttempt.request_id == Attempt.request_id, JournalAttempt.attempt == Attempt.attempt),
        )
        .where(Attempt.request_id == request_id)
        .order_by(Attempt.attempt)
    )
    return [AttemptView(attempt, journal) for attempt, journal in await session.execute(query)]
