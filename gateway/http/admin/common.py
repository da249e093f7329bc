"""What the admin routes share: their parts, pages, bodies and queries that refuse unknown fields, the audit row."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, TypeVar

import orjson
from fastapi import Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from gateway.audit.repository import Actor, AuditEntry, AuditRepository
from gateway.clock import Clock
from gateway.db import DATABASE_ERRORS, Database, WriteSession, is_serialization_failure
from gateway.errors import ServiceUnavailable
from gateway.exports.store import BlobStore
from gateway.http.auth import Authenticator
from gateway.ids import IdSource, TenantId
from gateway.tenancy import TenancyService

__all__ = [
    "AdminParts",
    "After",
    "Body",
    "Lifetime",
    "Limit",
    "Page",
    "Params",
    "actor_of",
    "in_transaction",
    "json_answer",
    "only_tenant",
    "page_of",
    "plain_arrays",
    "record",
    "unix",
    "visible",
]

Done = TypeVar("Done")
Json = dict[str, Any]
Limit = Annotated[int, Query(ge=1, le=100)]
Lifetime = Annotated[int, Field(ge=1, le=100 * 365 * 86_400)]
"""Seconds from now until something expires: a hundred years at most, so that the instant is one that can be written."""
After = Annotated[str | None, Query(max_length=200)]
Page = Json
DEADLOCKS_MAX = 5
_BRACKETS = re.compile(rb"(^|&)([^=&]*?)(?:\[\]|%5B%5D)(?==)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AdminParts:
    auth: Authenticator
    database: Database
    tenancy: TenancyService
    audit: AuditRepository
    ids: IdSource
    clock: Clock
    body_bytes_max: int
    exports: BlobStore | None = None
    """Where finished exports are; None when no destination is configured."""


class Body(BaseModel):
    """A request body: a field that nobody reads is the caller's mistake, not to be swallowed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Params(BaseModel):
    """The parameters of a query: one that nobody reads would be a filter silently not applied."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def plain_arrays(query: bytes) -> bytes:
    """Clients write arrays as `ids=a&ids=b` and as `ids[]=a&ids[]=b`; from here on there is the first form only."""
    return _BRACKETS.sub(rb"\1\2", query)


def json_answer(value: Json) -> Response:
    """For answers of many rows, and for numbers that must be written digit by digit (orjson.Fragment)."""
    return Response(orjson.dumps(value), media_type="application/json")


async def in_transaction(database: Database, act: Callable[[WriteSession], Awaitable[Done]]) -> Done:
    """For a change that locks what requests lock too: after a deadlock it is run again, from the start."""
    for _ in range(DEADLOCKS_MAX):
        try:
            async with database.write() as session:
                return await act(session)
        except DATABASE_ERRORS as error:
            if not is_serialization_failure(error):
                raise
    raise ServiceUnavailable("The change met too many requests that are being settled. Please retry.")


def page_of(rows: Sequence[Json], limit: int) -> Page:
    """`rows` holds one more than the page when there is more."""
    data = list(rows[:limit])
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": len(rows) > limit,
    }


def actor_of(request: Request) -> Actor:
    """Put there by admin/app.py, which lets nobody in without it."""
    actor = request.state.actor
    assert isinstance(actor, Actor)
    return actor


def only_tenant(request: Request) -> TenantId | None:
    """Whose data alone the caller may read: a tenant's key sees its tenant, an admin key has no such bound."""
    found: TenantId | None = request.state.tenant_id
    return found


def visible(request: Request, project_ids: Sequence[str]) -> Sequence[str] | None:
    """The projects that were asked for, as far as the caller may see them; None for all of them."""
    own = only_tenant(request)
    if own is None:
        return project_ids or None
    return [own] if not project_ids or own in project_ids else []


async def record(
    parts: AdminParts,
    session: WriteSession,
    request: Request,
    action: str,
    resource: tuple[str, str],
    tenant_id: str | None,
    details: Mapping[str, Any],
) -> None:
    """The audit row of a change, in the change's transaction. `resource` is its kind and id."""
    tenant = TenantId(tenant_id) if tenant_id is not None else None
    await parts.audit.append(session, actor_of(request), AuditEntry(action, *resource, tenant, details))


def unix(at: datetime | None) -> int | None:
    return int(at.timestamp()) if at is not None else None
