"""What the admin routes share: their parts, pages, bodies and queries that refuse unknown fields, the audit row."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, TypeVar

import orjson
from fastapi import Query, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from gateway.alerts.mail import MailChannel
from gateway.alerts.webhooks.service import EndpointService
from gateway.audit.repository import Actor, AuditEntry, AuditRepository
from gateway.clock import Clock
from gateway.db import DATABASE_ERRORS, Database, ReadSession, WriteSession, is_serialization_failure
from gateway.errors import InvalidValue, ServiceUnavailable
from gateway.exports.store import BlobStore
from gateway.http.admin.access import Caller
from gateway.http.auth import Authenticator
from gateway.ids import IdSource, ReplicaId, TenantId
from gateway.pool.access import PoolAccess
from gateway.sessions import SessionDirectory, SessionService
from gateway.sessions.invitations import Invitations
from gateway.sessions.oidc import OidcService
from gateway.sessions.resets import PasswordResets
from gateway.tenancy import TenancyService
from gateway.tenancy.people.service import PeopleService
from gateway.tenancy.projects.repository import ProjectRepository
from gateway.tenancy.projects.service import ProjectService
from gateway.wire.load import EngineLoad

__all__ = [
    "AdminParts",
    "After",
    "Body",
    "Lifetime",
    "Limit",
    "Name",
    "Page",
    "Params",
    "actor_of",
    "bound_to",
    "caller_of",
    "in_transaction",
    "instant_in",
    "json_answer",
    "page_of",
    "plain_arrays",
    "record",
    "require_project",
    "unix",
    "visible",
]

Done = TypeVar("Done")
Json = dict[str, Any]
Limit = Annotated[int, Query(ge=1, le=100)]
Lifetime = Annotated[int, Field(ge=1, le=100 * 365 * 86_400)]
"""Seconds from now until something expires: a hundred years at most, so that the instant is one that can be written."""
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def _seen(name: str) -> str:
    if _UNSEEN.search(name):
        raise ValueError("no control characters, line ends or marks of writing direction")
    return name


Name = Annotated[str, AfterValidator(_seen)]
"""What people call something. It is shown in lists, mails and terminals, and must not rearrange them."""
After = Annotated[str | None, Query(max_length=200)]
Page = Json
DEADLOCKS_MAX = 5
_BRACKETS = re.compile(rb"(^|&)([^=&]*?)(?:\[\]|%5B%5D)(?==)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AdminParts:
    auth: Authenticator
    database: Database
    tenancy: TenancyService
    projects: ProjectService
    people: PeopleService
    audit: AuditRepository
    ids: IdSource
    clock: Clock
    body_bytes_max: int
    sessions: SessionService
    invitations: Invitations
    resets: PasswordResets
    directory: SessionDirectory
    oidc: OidcService
    mail: MailChannel | None
    """None without an SMTP server."""
    pool_access: PoolAccess
    endpoints: EndpointService
    exports: BlobStore | None = None
    """Where finished exports are; None when no destination is configured."""
    load_of: Callable[[ReplicaId], EngineLoad | None] = lambda _: None
    """What a replica last said to this gateway about its work."""


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


def instant_in(parts: AdminParts, seconds: int | None) -> datetime | None:
    """That many seconds from now; None for never."""
    return parts.clock.now() + timedelta(seconds=seconds) if seconds is not None else None


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
    return caller_of(request).actor


def bound_to(request: Request) -> frozenset[TenantId] | None:
    """Whose data alone the caller may see; None for an administrator of the whole."""
    return caller_of(request).tenants


def visible(request: Request, project_ids: Sequence[str]) -> Sequence[str] | None:
    """The projects that were asked for, as far as the caller may see them; None for all of them."""
    own = bound_to(request)
    if own is None:
        return project_ids or None
    return [tenant for tenant in own if not project_ids or tenant in project_ids]


def caller_of(request: Request) -> Caller:
    """Put there by admin/app.py, which lets nobody in without it."""
    caller = request.state.caller
    assert isinstance(caller, Caller)
    return caller


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
    assert request.method == "GET" or {"before", "after"} & set(details), "a change says what was, or what is"
    tenant = TenantId(tenant_id) if tenant_id is not None else None
    await parts.audit.append(session, actor_of(request), AuditEntry(action, *resource, tenant, details))


async def require_project(session: WriteSession, projects: ProjectRepository, project_id: str | None) -> None:
    """For a body's `project_id`, which may be left out where something is about all of them."""
    if project_id is None:
        return
    if await projects.project(ReadSession(session), TenantId(project_id)) is None:
        raise InvalidValue("No such project.", "project_id")


def unix(at: datetime | None) -> int | None:
    return int(at.timestamp()) if at is not None else None
