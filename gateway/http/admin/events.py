"""The ledger's lines: usage events, corrections included, newest first, keyset-paged.

`last_id` of a page with a filter may name a line that the filter left out: it is where the next page begins.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from gateway.errors import InvalidValue
from gateway.http.admin.common import AdminParts, After, Json, Limit, Page, page_of, unix
from gateway.http.admin.cursor import cursor_of, cursor_text
from gateway.ledger.models import UsageEvent
from gateway.ledger.repository.requests import EventCursor, RequestFilter, RequestReader

__all__ = ["EventRoutes"]

PREFIX = "evt_"
Filter = Annotated[str | None, Query(max_length=200)]


class EventRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._reader = RequestReader()

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
        wanted = RequestFilter(
            tenant_id=project_id, request_id=request_id, served_model=model, with_corrections=True
        )
        cursor = _cursor(after) if after is not None else None
        async with self._p.database.read() as session:
            page = await self._reader.page(session, wanted, cursor, limit)
            shown = page_of([_event(row) for row in page.events], limit)
        if page.next is not None:
            shown |= {"last_id": cursor_text(PREFIX, page.next), "has_more": True}
        return shown


def _cursor(after: str) -> EventCursor:
    found = cursor_of(PREFIX, after)
    if found is None:
        raise InvalidValue("This is no event id.", "after")
    return found


def _event(row: UsageEvent) -> Json:
    return {
        "object": "organization.usage_event",
        "id": cursor_text(PREFIX, EventCursor(row.occurred_at, row.event_id)),
        "kind": row.kind,
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
        "adjustment_nanousd": row.adjustment_nanousd,
        "amount_nanousd": row.amount_nanousd,
        "ttft_ms": row.ttft_ms,
        "e2e_ms": row.e2e_ms,
        "tpot_us": row.tpot_us,
        "client_retry_count": row.client_retry_count,
        "corrects": row.corrects.hex if row.corrects is not None else None,
        "occurred_at": unix(row.occurred_at),
        "recorded_at": unix(row.recorded_at),
    }
