"""The ledger's lines: usage events, newest first, keyset-paged."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from gateway.errors import InvalidValue
from gateway.http.admin.common import AdminParts, After, Json, Limit, Page, page_of, unix
from gateway.ledger.models import UsageEvent
from gateway.ledger.repository.views import EventCursor, EventFilter, LedgerViews

__all__ = ["RequestRoutes"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Filter = Annotated[str | None, Query(max_length=200)]


class RequestRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._views = LedgerViews()

    def register(self, router: APIRouter) -> None:
        router.add_api_route("/usage_events", self.list, methods=["GET"])

    async def list(
        self,
        project_id: Filter = None,
        request_id: Filter = None,
        model: Filter = None,
        limit: Limit = 20,
        after: After = None,
    ) -> Page:
        wanted = EventFilter(project_id, request_id, model)
        async with self._p.database.read() as session:
            cursor = _cursor(after) if after is not None else None
            rows = await self._views.events(session, wanted, cursor, limit + 1)
            shown = [_event(row) for row in rows]
        return page_of(shown, limit)


def _id(occurred_at: datetime, event_id: UUID) -> str:
    """Both parts of the table's key, so that a page begins without a look-up."""
    micros = (occurred_at - _EPOCH) // timedelta(microseconds=1)
    return f"evt_{micros:x}_{event_id.hex}"


def _cursor(after: str) -> EventCursor:
    try:
        _, micros, event_id = after.split("_")
        return EventCursor(_EPOCH + timedelta(microseconds=int(micros, 16)), UUID(event_id))
    except (ValueError, OverflowError):
        raise InvalidValue("This is no event id.", "after") from None


def _event(row: UsageEvent) -> Json:
    return {
        "object": "organization.usage_event",
        "id": _id(row.occurred_at, row.event_id),
        "request_id": row.request_id,
        "project_id": row.tenant_id,
        "api_key_id": row.key_id,
        "user_ref": row.user_ref,
        "model": row.served_model,
        "pool_id": row.pool_id,
        "endpoint": row.endpoint,
        "class": row.request_class,
        "stream": row.is_stream,
        "status": row.status,
        "error_code": row.error_code,
        "prompt_uncached_tokens": row.prompt_uncached_tokens,
        "prompt_cached_tokens": row.prompt_cached_tokens,
        "completion_tokens": row.completion_tokens,
        "reasoning_tokens": row.reasoning_tokens,
        "input_nanousd": row.input_nanousd,
        "cached_input_nanousd": row.cached_input_nanousd,
        "output_nanousd": row.output_nanousd,
        "amount_nanousd": row.amount_nanousd,
        "ttft_ms": row.ttft_ms,
        "e2e_ms": row.e2e_ms,
        "tpot_us": row.tpot_us,
        "client_retry_count": row.client_retry_count,
        "corrects": row.corrects.hex if row.corrects is not None else None,
        "occurred_at": unix(row.occurred_at),
        "recorded_at": unix(row.recorded_at),
    }
