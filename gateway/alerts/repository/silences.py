"""Silences: made, listed, ended early; and those that hold now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert

from gateway.alerts.models import AlertSilence
from gateway.db import ReadSession, WriteConnection, WriteSession

__all__ = ["Silence", "SilenceRepository", "holding_silences"]

_HOLDING = text(
    """
    SELECT id, source, scope, tenant_id, reason, created_by, starts_at, ends_at, created_at FROM alert_silence
    WHERE starts_at <= :at AND ends_at > :at AND (source IS NULL OR source = :source) ORDER BY id
    """
)


@dataclass(frozen=True, slots=True)
class Silence:
    """None: whichever."""

    id: str
    source: str | None
    scope: str | None
    tenant_id: str | None
    reason: str
    created_by: str
    starts_at: datetime
    ends_at: datetime
    created_at: datetime

    def covers(self, scope: str, tenant_id: str | None) -> bool:
        return self.scope in (None, scope) and self.tenant_id in (None, tenant_id)


async def holding_silences(connection: WriteConnection, source: str, at: datetime) -> list[Silence]:
    rows = (await connection.execute(_HOLDING, {"at": at, "source": source})).mappings()
    return [Silence(**row) for row in rows]


class SilenceRepository:
    async def insert(self, session: WriteSession, silence: Silence) -> None:
        values = {name: getattr(silence, name) for name in Silence.__slots__}
        await session.execute(insert(AlertSilence).values(**values))

    async def end(self, session: WriteSession, silence_id: str, at: datetime) -> None:
        """What has begun ends now; what has not begun never does."""
        row = update(AlertSilence).where(AlertSilence.id == silence_id, AlertSilence.ends_at > at)
        await session.execute(
            row.values(ends_at=at, starts_at=text("least(starts_at, :at)").bindparams(at=at))
        )

    async def silence(self, session: ReadSession, silence_id: str) -> Silence | None:
        row = await session.get(AlertSilence, silence_id, populate_existing=True)
        return _silence(row) if row is not None else None

    async def page(
        self, session: ReadSession, is_over: bool | None, now: datetime, after: str | None, limit: int
    ) -> list[Silence]:
        """The one that ends last first."""
        table = AlertSilence
        query = select(table).order_by(table.ends_at.desc(), table.id.desc()).limit(limit)
        if is_over is not None:
            query = query.where(table.ends_at <= now if is_over else table.ends_at > now)
        if after is not None:
            last = select(table.ends_at, table.id).where(table.id == after)
            query = query.where(tuple_(table.ends_at, table.id) < last.scalar_subquery())
        return [_silence(row) for row in await session.scalars(query)]


def _silence(row: AlertSilence) -> Silence:
    return Silence(
        row.id,
        row.source,
        row.scope,
        row.tenant_id,
        row.reason,
        row.created_by,
        row.starts_at,
        row.ends_at,
        row.created_at,
    )
