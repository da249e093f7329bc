"""The audit log: who changed what, what it was before and after, newest first. Secrets were never written into it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import Field

from gateway.audit.repository import Actor, AuditFilter, AuditRecord, Place
from gateway.db import ReadSession
from gateway.errors import InvalidValue
from gateway.http.admin.alert_books import Cursor, turned_page
from gateway.http.admin.audit_words import actions_of, payload_of, type_of
from gateway.http.admin.common import AdminParts, Json, Page, Params, unix
from gateway.tenancy.people.types import KeyOwner

__all__ = ["AuditLogRoutes"]

PREFIX = "audit_log_"
Name = Annotated[str, Field(max_length=254)]
Names = Annotated[tuple[Name, ...], Field(max_length=100)]
UnixTime = Annotated[int, Field(ge=0, lt=32_503_680_000)]


class AuditParams(Params):
    """`event_types`: OpenAI's, or our own actions."""

    limit: Annotated[int, Field(ge=1, le=100)] = 20
    after: Name | None = None
    before: Name | None = None
    actor_ids: Names = ()
    actor_emails: Names = ()
    event_types: Names = ()
    project_ids: Names = ()
    resource_ids: Names = ()
    tenant_only: bool = False
    gt: Annotated[UnixTime | None, Field(alias="effective_at[gt]")] = None
    gte: Annotated[UnixTime | None, Field(alias="effective_at[gte]")] = None
    lt: Annotated[UnixTime | None, Field(alias="effective_at[lt]")] = None
    lte: Annotated[UnixTime | None, Field(alias="effective_at[lte]")] = None

    def since(self) -> datetime | None:
        """`effective_at` is in whole seconds: later than one is from the next one on."""
        starts = [
            start for start in (self.gte, self.gt + 1 if self.gt is not None else None) if start is not None
        ]
        return datetime.fromtimestamp(max(starts), UTC) if starts else None

    def until(self) -> datetime | None:
        ends = [end for end in (self.lt, self.lte + 1 if self.lte is not None else None) if end is not None]
        return datetime.fromtimestamp(min(ends), UTC) if ends else None


class AuditLogRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._people = parts.people.repository

    def register(self, router: APIRouter) -> None:
        router.add_api_route("/audit_logs", self.list, methods=["GET"])

    async def list(self, params: Annotated[AuditParams, Query()]) -> Page:
        async with self._p.database.read() as session:
            rows = await self._p.audit.page(session, await self._filter(session, params), params.limit)
            owners = await self._people.owners_of(session, [row.actor.id for row in rows])
            tenants = [row.entry.tenant_id for row in rows if row.entry.tenant_id is not None]
            names = await self._people.project_names(session, tenants)
        cursor = Cursor(params.limit, params.after, params.before)
        return turned_page([_record(row, owners, names) for row in rows], cursor)

    async def _filter(self, session: ReadSession, params: AuditParams) -> AuditFilter:
        actors: set[str] | None = None
        if params.actor_ids or params.actor_emails:
            keys = await self._people.keys_of(session, params.actor_ids, params.actor_emails)
            actors = keys | set(params.actor_ids)
        return AuditFilter(
            tenant_ids=params.project_ids or None,
            actor_ids=actors,
            resource_ids=params.resource_ids or None,
            actions=actions_of(params.event_types, tenant_only=params.tenant_only),
            since=params.since(),
            until=params.until(),
            older_than=await self._place(session, params.after, "after"),
            newer_than=await self._place(session, params.before, "before"),
        )

    async def _place(self, session: ReadSession, text: str | None, param: str) -> Place | None:
        if text is None:
            return None
        try:
            found = await self._p.audit.place(session, UUID(text.removeprefix(PREFIX)))
        except ValueError:
            found = None
        if found is None:
            raise InvalidValue("This is no place in this list.", param)
        return found


def _record(record: AuditRecord, owners: Mapping[str, KeyOwner], names: Mapping[str, str]) -> Json:
    entry = record.entry
    project = None
    if entry.tenant_id is not None:
        project = {"id": entry.tenant_id, "name": names.get(entry.tenant_id)}
    return {
        "id": PREFIX + record.id.hex,
        "type": type_of(entry),
        "effective_at": unix(record.occurred_at),
        "project": project,
        "actor": _actor(record.actor, owners.get(record.actor.id)),
        **payload_of(entry),
        "action": entry.action,
        "resource": {"type": entry.resource_kind, "id": entry.resource_id},
        "details": entry.details,
        "request_id": record.actor.request_id,
    }


def _actor(actor: Actor, owner: KeyOwner | None) -> Json:
    """`system` and the key's caller's address are ours."""
    if actor.kind == "system":
        return {"type": None, "api_key": None, "session": None, "system": {"id": actor.id}}
    if actor.kind == "user":
        user = {"id": actor.id, "email": owner.email if owner is not None else None}
        session = {"ip_address": actor.client_ip, "user": user}
        return {"type": "session", "api_key": None, "session": session}
    key: Json = {"id": actor.id, "type": owner.kind if owner is not None else None}
    if owner is not None:
        key[owner.kind] = {"id": owner.id} | ({"email": owner.email} if owner.kind == "user" else {})
    return {"type": "api_key", "api_key": key, "session": None, "ip_address": actor.client_ip}
