"""Requests as the console lists them: one line per settled request, and one request with all that is known of it.

A page may hold less than its limit, even nothing, and still have a next one: a rare filter is searched for a bounded
time. A tenant's key sees its own requests and nothing of the machinery behind them (pools, replicas, routes).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from gateway.errors import InvalidValue, MissingParameter, NotFound
from gateway.http.admin.common import AdminParts, Json, Params, bound_to, json_answer, unix
from gateway.http.admin.cursor import cursor_of, cursor_text
from gateway.http.admin.usage_query import UnixTime, first_keys
from gateway.ids import TenantId
from gateway.ledger.models import UsageEvent
from gateway.ledger.repository.request_detail import (
    AttemptView,
    CorrectionView,
    RequestDetail,
    request_detail,
)
from gateway.ledger.repository.requests import EventCursor, RequestFilter, RequestReader
from gateway.ledger.types import SettlementStatus
from gateway.routing.models import Price

__all__ = ["RequestRoutes"]

PREFIX = "page_"
Name = Annotated[str, Field(max_length=200)]


class RequestParams(Params):
    """`status` may come more than once."""

    limit: Annotated[int, Field(ge=1, le=100)] = 20
    page: Name | None = None
    start_time: UnixTime | None = None
    end_time: UnixTime | None = None
    project_id: Name | None = None
    api_key_id: Name | None = None
    user_id: Name | None = None
    model: Name | None = None
    pool_id: Name | None = None
    request_class: Annotated[Name | None, Field(alias="class")] = None
    status: tuple[SettlementStatus, ...] = ()
    stream: bool | None = None


class RequestRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._reader = RequestReader()

    def register(self, router: APIRouter) -> None:
        router.add_api_route("/requests", self.list, methods=["GET"])
        router.add_api_route("/requests/{request_id}", self.retrieve, methods=["GET"])

    async def list(self, request: Request, params: Annotated[RequestParams, Query()]) -> Response:
        own = bound_to(request)
        project_id = params.project_id
        if own is not None:
            if params.pool_id is not None:
                raise InvalidValue("Pools are the operator's.", "pool_id")
            project_id = _own_project(own, project_id)
            if project_id is None:
                return json_answer(_page([], None))
        before = _before(params.page)
        wanted = _filter(
            params, project_id, await first_keys(self._p, [params.api_key_id] if params.api_key_id else [])
        )
        async with self._p.database.read() as session:
            page = await self._reader.page(session, wanted, before, params.limit)
            data = [
                _line(event, page.corrections_nanousd.get(event.request_id, 0), own is None)
                for event in page.events
            ]
        return json_answer(_page(data, page.next))

    async def retrieve(self, request: Request, request_id: str) -> Json:
        own = bound_to(request)
        async with self._p.database.read() as session:
            found = await request_detail(
                session, request_id, next(iter(own)) if own and len(own) == 1 else None
            )
        if found is None or (own is not None and found.event.tenant_id not in own):
            raise NotFound("No such request.")
        return _detail(found, own is None)


def _own_project(own: frozenset[TenantId], asked: str | None) -> str | None:
    """The one project to look into; None for one that is not the caller's."""
    if asked is None and len(own) > 1:
        raise MissingParameter("project_id")
    mine = next(iter(own), None) if asked is None else asked
    return mine if mine in own else None


def _filter(params: RequestParams, project_id: str | None, key_ids: Sequence[str] | None) -> RequestFilter:
    return RequestFilter(
        tenant_id=project_id,
        key_id=key_ids[0] if key_ids is not None else None,
        user_ref=params.user_id,
        served_model=params.model,
        pool_id=params.pool_id,
        request_class=params.request_class,
        statuses=params.status or None,
        is_stream=params.stream,
        start=_time(params.start_time),
        end=_time(params.end_time),
    )


def _time(unix_time: int | None) -> datetime | None:
    return datetime.fromtimestamp(unix_time, UTC) if unix_time is not None else None


def _before(page: str | None) -> EventCursor | None:
    if page is None:
        return None
    found = cursor_of(PREFIX, page)
    if found is None:
        raise InvalidValue("This is no page of this list.", "page")
    return found


def _page(data: list[Json], following: EventCursor | None) -> Json:
    return {
        "object": "page",
        "data": data,
        "has_more": following is not None,
        "next_page": cursor_text(PREFIX, following) if following is not None else None,
    }


def _line(event: UsageEvent, corrections_nanousd: int, is_operator: bool) -> Json:
    behind = {"pool_id": event.pool_id, "route_id": event.route_id} if is_operator else {}
    return {
        "object": "organization.request",
        "id": event.request_id,
        "event_id": event.event_id.hex,
        "occurred_at": unix(event.occurred_at),
        "project_id": event.tenant_id,
        "api_key_id": event.key_id,
        "user_id": event.user_ref,
        "model": event.served_model,
        "endpoint": event.endpoint,
        "class": event.request_class,
        "stream": event.is_stream,
        "status": event.status,
        "error_code": event.error_code,
        "input_tokens": event.prompt_uncached_tokens + event.prompt_cached_tokens,
        "input_cached_tokens": event.prompt_cached_tokens,
        "output_tokens": event.completion_tokens,
        "reasoning_tokens": event.reasoning_tokens,
        "amount_nanousd": event.amount_nanousd,
        "net_amount_nanousd": event.amount_nanousd + corrections_nanousd,
        "queue_ms": event.queue_ms,
        "ttft_ms": event.ttft_ms,
        "e2e_ms": event.e2e_ms,
        "tpot_us": event.tpot_us,
        "client_retry_count": event.client_retry_count,
        **behind,
    }


def _detail(found: RequestDetail, is_operator: bool) -> Json:
    event = found.event
    corrections = sum(one.event.amount_nanousd for one in found.corrections)
    return {
        **_line(event, corrections, is_operator),
        "end_user": found.end_user,
        "recorded_at": unix(event.recorded_at),
        "is_provisional": found.is_provisional,
        "input_nanousd": event.input_nanousd,
        "cached_input_nanousd": event.cached_input_nanousd,
        "output_nanousd": event.output_nanousd,
        "over_hold_nanousd": event.over_hold_nanousd,
        "prices": [_price(price) for price in found.prices],
        "attempts": [_attempt(view, is_operator) for view in found.attempts],
        "corrections": [_correction(view, is_operator) for view in found.corrections],
    }


def _price(price: Price) -> Json:
    return {
        "id": price.id,
        "sku": price.sku,
        "component": price.component,
        "nanousd_per_token": format(price.nanousd_per_token.normalize(), "f"),
        "valid_from": unix(price.valid_from),
    }


def _attempt(view: AttemptView, is_operator: bool) -> Json:
    attempt, journal = view.attempt, view.journal
    behind = {"replica_id": attempt.replica_id, "engine_epoch": attempt.engine_epoch} if is_operator else {}
    return {
        "attempt": attempt.attempt,
        "input_tokens": attempt.prompt_tokens,
        "input_cached_tokens": attempt.cached_tokens,
        "output_tokens": attempt.completion_tokens,
        "overrun_tokens": attempt.overrun_tokens,
        "billed_input_tokens": attempt.billed_prompt_tokens,
        "billed_output_tokens": attempt.billed_completion_tokens,
        "unbilled_reason": attempt.unbilled_reason,
        "resumed_from": attempt.resumed_from,
        "finish_reason": attempt.finish_reason or (journal.finish_reason if journal is not None else None),
        "queue_ms": journal.queue_ms if journal is not None else None,
        "ttft_ms": journal.ttft_ms if journal is not None else None,
        "e2e_ms": journal.e2e_ms if journal is not None else None,
        **behind,
    }


def _correction(view: CorrectionView, is_operator: bool) -> Json:
    event, entry = view.event, view.entry
    by = {"created_by": entry.created_by} if entry is not None and is_operator else {}
    return {
        "event_id": event.event_id.hex,
        "kind": event.kind,
        "occurred_at": unix(event.occurred_at),
        "input_tokens": event.prompt_uncached_tokens + event.prompt_cached_tokens,
        "input_cached_tokens": event.prompt_cached_tokens,
        "output_tokens": event.completion_tokens,
        "amount_nanousd": event.amount_nanousd,
        "reason": entry.reason if entry is not None else None,
        **by,
    }
