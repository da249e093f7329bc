"""What the ledger knows of requests that somebody may have run before: a hold, an end, and whether that was paid for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import text

from gateway.db import WriteConnection
from gateway.ids import RequestId

__all__ = ["Trace", "traces_of"]

# What was settled provisionally may still be corrected, so it counts as paid for.
_TRACES = text(
    """
    SELECT asked.id, h.request_id IS NOT NULL, s.request_id IS NOT NULL, coalesce(s.is_provisional
        OR e.status = 'ok' OR e.prompt_uncached_tokens + e.prompt_cached_tokens + e.completion_tokens > 0, false)
    FROM unnest(CAST(:request_ids AS text[])) AS asked (id)
    LEFT JOIN hold h ON h.request_id = asked.id
    LEFT JOIN settled_request s ON s.request_id = asked.id
    LEFT JOIN usage_event e ON e.occurred_at = s.occurred_at AND e.event_id = s.event_id
    WHERE h.request_id IS NOT NULL OR s.request_id IS NOT NULL
    """
)


@dataclass(frozen=True, slots=True)
class Trace:
    request_id: RequestId
    has_hold: bool
    is_settled: bool
    is_paid: bool


async def traces_of(connection: WriteConnection, request_ids: Sequence[RequestId]) -> dict[RequestId, Trace]:
    """Of those that left any."""
    rows = await connection.execute(_TRACES, {"request_ids": list(request_ids)})
    return {RequestId(row[0]): Trace(*row) for row in rows}
