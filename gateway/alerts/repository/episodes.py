"""Episodes as rows: begun, gone on with and ended, each once, however many workers see the same."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import select, text, tuple_

from gateway.alerts.episodes import Episode
from gateway.alerts.models import AlertEpisode
from gateway.db import ReadSession, WriteConnection

__all__ = [
    "EpisodeReader",
    "EpisodeView",
    "begin",
    "lock_source",
    "mark_announced",
    "mark_loud",
    "mark_quiet",
    "note_values",
    "open_episodes",
    "resolve",
    "resolve_spend",
    "row_of",
]

_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:source, 4711))")
_OPEN = text(
    """
    SELECT id, source, scope, severity, tenant_id, values, fired_at, quiet_since, announced_at IS NOT NULL AS is_announced
    FROM alert_episode WHERE source = :source AND resolved_at IS NULL AND (announced_at IS NULL OR NOT :untold) ORDER BY scope
    """
)
_BEGIN = text(
    """
    INSERT INTO alert_episode (id, source, scope, severity, tenant_id, values, last_values, fired_at, announced_at, silence_id)
    SELECT id, source, scope, severity, tenant_id, values, values, fired_at, announced_at, silence_id
    FROM json_populate_recordset(CAST(NULL AS alert_episode), CAST(:rows AS json))
    ON CONFLICT (source, scope) WHERE resolved_at IS NULL DO NOTHING RETURNING id
    """
)
_QUIET = text("UPDATE alert_episode SET quiet_since = :at WHERE id = ANY(:ids) AND quiet_since IS NULL")
_LOUD = text("UPDATE alert_episode SET quiet_since = NULL WHERE id = ANY(:ids)")
_ANNOUNCED = text(
    "UPDATE alert_episode SET announced_at = :at WHERE id = ANY(:ids) AND announced_at IS NULL RETURNING id"
)
_RESOLVE = text(
    "UPDATE alert_episode SET resolved_at = :at WHERE id = ANY(:ids) AND resolved_at IS NULL RETURNING id"
)
_VALUES = text(
    """
    UPDATE alert_episode e SET last_values = given.last_values
    FROM json_to_recordset(CAST(:rows AS json)) AS given (id text, last_values jsonb)
    WHERE e.id = given.id AND e.last_values <> given.last_values
    """
)
# What a threshold says of a period is over with the period, or when the limit it was about has been raised.
_RESOLVE_SPEND = text(
    """
    UPDATE alert_episode e SET resolved_at = :at
    WHERE resolved_at IS NULL AND source IN ('budget.threshold_reached', 'budget.exhausted')
        AND (CAST(values -> 'period' ->> 'ends_at' AS bigint) <= :now
            OR values ->> 'budget_id' IS NOT NULL AND NOT EXISTS (
                SELECT FROM budget b WHERE b.id = e.values ->> 'budget_id'
                    AND b.limit_nanousd <= CAST(e.values ->> 'limit_nanousd' AS bigint)))
    """
)


@dataclass(frozen=True, slots=True)
class EpisodeView:
    id: str
    source: str
    scope: str
    severity: str
    tenant_id: str | None
    values: dict[str, Any]
    last_values: dict[str, Any]
    fired_at: datetime
    quiet_since: datetime | None
    resolved_at: datetime | None
    announced_at: datetime | None
    silence_id: str | None


async def lock_source(connection: WriteConnection, source: str) -> None:
    """Until the transaction ends no other worker decides about this source."""
    await connection.execute(_LOCK, {"source": source})


async def open_episodes(connection: WriteConnection, source: str, *, untold: bool = False) -> list[Episode]:
    """All that are open, or those alone that nobody was told of."""
    rows = await connection.execute(_OPEN, {"source": source, "untold": untold})
    return [Episode(**row) for row in rows.mappings()]


async def begin(connection: WriteConnection, rows: Sequence[dict[str, Any]]) -> frozenset[str]:
    """Columns by name. The ids of those that began: a scope that has an open one gets no second."""
    document = msgspec.json.encode(rows).decode()
    return frozenset(row.id for row in await connection.execute(_BEGIN, {"rows": document}))


async def mark_quiet(connection: WriteConnection, ids: Sequence[str], at: datetime) -> None:
    await connection.execute(_QUIET, {"ids": list(ids), "at": at})


async def mark_loud(connection: WriteConnection, ids: Sequence[str]) -> None:
    await connection.execute(_LOUD, {"ids": list(ids)})


async def mark_announced(connection: WriteConnection, ids: Sequence[str], at: datetime) -> frozenset[str]:
    return frozenset(row.id for row in await connection.execute(_ANNOUNCED, {"ids": list(ids), "at": at}))


async def resolve(connection: WriteConnection, ids: Sequence[str], at: datetime) -> frozenset[str]:
    """Those that were open."""
    return frozenset(row.id for row in await connection.execute(_RESOLVE, {"ids": list(ids), "at": at}))


async def note_values(connection: WriteConnection, values: dict[str, Any]) -> None:
    """The latest figures of open episodes, by id."""
    rows = [{"id": name, "last_values": one} for name, one in values.items()]
    await connection.execute(_VALUES, {"rows": msgspec.json.encode(rows).decode()})


async def resolve_spend(connection: WriteConnection, at: datetime) -> int:
    """Episodes of spend, whose periods are over."""
    done = await connection.execute(_RESOLVE_SPEND, {"at": at, "now": int(at.timestamp())})
    return done.rowcount


def row_of(episode: Episode, silence_id: str | None) -> dict[str, Any]:
    """The columns of an episode that begins."""
    return {
        "id": episode.id,
        "source": episode.source,
        "scope": episode.scope,
        "severity": episode.severity,
        "tenant_id": episode.tenant_id,
        "values": episode.values,
        "fired_at": episode.fired_at,
        "announced_at": episode.fired_at if episode.is_announced else None,
        "silence_id": silence_id,
    }


class EpisodeReader:
    async def page(
        self,
        session: ReadSession,
        tenants: Collection[str] | None,
        *,
        source: str | None,
        is_open: bool | None,
        after: str | None,
        limit: int,
    ) -> list[EpisodeView]:
        """Newest first. `tenants`: whose alone may be seen; None for all, and the organisation's own."""
        table = AlertEpisode
        query = select(table).order_by(table.fired_at.desc(), table.id.desc()).limit(limit)
        if tenants is not None:
            query = query.where(table.tenant_id.in_(tenants))
        if source is not None:
            query = query.where(table.source == source)
        if is_open is not None:
            query = query.where(table.resolved_at.is_(None) if is_open else table.resolved_at.is_not(None))
        if after is not None:
            last = select(table.fired_at, table.id).where(table.id == after)
            query = query.where(tuple_(table.fired_at, table.id) < last.scalar_subquery())
        return [_view(row) for row in await session.scalars(query)]

    async def episode(
        self, session: ReadSession, episode_id: str, tenants: Collection[str] | None
    ) -> EpisodeView | None:
        row = await session.get(AlertEpisode, episode_id)
        if row is None or (tenants is not None and row.tenant_id not in tenants):
            return None
        return _view(row)


def _view(row: AlertEpisode) -> EpisodeView:
    return EpisodeView(
        row.id,
        row.source,
        row.scope,
        row.severity,
        row.tenant_id,
        row.values,
        row.last_values,
        row.fired_at,
        row.quiet_since,
        row.resolved_at,
        row.announced_at,
        row.silence_id,
    )
