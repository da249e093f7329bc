"""Alert episodes and silences: what was wrong from when to when, and when nobody is to be told of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field

from gateway.alerts.kinds import KINDS
from gateway.alerts.repository.episodes import EpisodeReader, EpisodeView
from gateway.alerts.repository.silences import Silence, SilenceRepository
from gateway.db import ReadSession, WriteSession
from gateway.errors import InvalidValue, NotFound
from gateway.http.admin.common import (
    AdminParts,
    After,
    Body,
    Json,
    Limit,
    Name,
    Page,
    actor_of,
    bound_to,
    page_of,
    record,
    require_project,
    unix,
)
from gateway.tenancy.projects.repository import ProjectRepository

__all__ = ["EpisodeRoutes"]

LONGEST_S = 365 * 86_400
Text = Annotated[str, Field(min_length=1, max_length=500)]
Filter = Annotated[str | None, Query(max_length=200)]


class SilenceBody(Body):
    """What is left out is not narrowed down: without a source, every source. From now, or `starts_in_s` from now."""

    source: Text | None = None
    scope: Text | None = None
    project_id: Text | None = None
    reason: Annotated[Name, Field(min_length=1, max_length=500)]
    starts_in_s: Annotated[int, Field(ge=0, le=LONGEST_S)] = 0
    lasts_s: Annotated[int, Field(ge=60, le=LONGEST_S)]


class EpisodeRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._episodes = EpisodeReader()
        self._silences = SilenceRepository()
        self._projects = ProjectRepository()

    def register(self, router: APIRouter) -> None:
        router.add_api_route("/alert_episodes", self.list, methods=["GET"])
        router.add_api_route("/alert_episodes/{episode_id}", self.retrieve, methods=["GET"])
        router.add_api_route("/alert_silences", self.create_silence, methods=["POST"])
        router.add_api_route("/alert_silences", self.list_silences, methods=["GET"])
        router.add_api_route("/alert_silences/{silence_id}", self.retrieve_silence, methods=["GET"])
        router.add_api_route("/alert_silences/{silence_id}", self.end_silence, methods=["DELETE"])

    async def list(
        self,
        request: Request,
        state: Literal["open", "resolved"] | None = None,
        source: Filter = None,
        project_id: Filter = None,
        limit: Limit = 20,
        after: After = None,
    ) -> Page:
        """Newest first. A project sees its own."""
        own = bound_to(request)
        tenants = own if project_id is None else [project_id] if own is None or project_id in own else []
        async with self._p.database.read() as session:
            rows = await self._episodes.page(
                session,
                tenants,
                source=source,
                is_open=state == "open" if state is not None else None,
                after=after,
                limit=limit + 1,
            )
        return page_of([_episode(row) for row in rows], limit)

    async def retrieve(self, request: Request, episode_id: str) -> Json:
        async with self._p.database.read() as session:
            found = await self._episodes.episode(session, episode_id, bound_to(request))
        if found is None:
            raise NotFound("No such episode.")
        return _episode(found)

    async def create_silence(self, request: Request, body: SilenceBody) -> Json:
        if body.source is not None and body.source not in KINDS:
            raise InvalidValue(f"No such source; there are {', '.join(KINDS)}.", "source")
        now = self._p.clock.now()
        starts_at = now + timedelta(seconds=body.starts_in_s)
        made = Silence(
            id=self._p.ids.new("silence"),
            source=body.source,
            scope=body.scope,
            tenant_id=body.project_id,
            reason=body.reason,
            created_by=actor_of(request).id,
            starts_at=starts_at,
            ends_at=starts_at + timedelta(seconds=body.lasts_s),
            created_at=now,
        )
        async with self._p.database.write() as session:
            await require_project(session, self._projects, body.project_id)
            await self._silences.insert(session, made)
            await self._record(session, request, made, "created", {"after": _silence(made)})
        return _silence(made)

    async def list_silences(
        self, state: Literal["open", "over"] | None = None, limit: Limit = 20, after: After = None
    ) -> Page:
        """The one that ends last first; `open`: those that are not over."""
        is_over = state == "over" if state is not None else None
        async with self._p.database.read() as session:
            rows = await self._silences.page(session, is_over, self._p.clock.now(), after, limit + 1)
        return page_of([_silence(row) for row in rows], limit)

    async def retrieve_silence(self, silence_id: str) -> Json:
        async with self._p.database.read() as session:
            return _silence(await self._found(session, silence_id))

    async def end_silence(self, request: Request, silence_id: str) -> Json:
        """Ends it now; that it was there stays known. What is still wrong is announced within seconds."""
        async with self._p.database.write() as session:
            before = await self._found(ReadSession(session), silence_id)
            await self._silences.end(session, silence_id, self._p.clock.now())
            await self._record(session, request, before, "deleted", {"before": _silence(before)})
        return {"object": "organization.alert_silence.deleted", "id": silence_id, "deleted": True}

    async def _found(self, session: ReadSession, silence_id: str) -> Silence:
        found = await self._silences.silence(session, silence_id)
        if found is None:
            raise NotFound("No such silence.")
        return found

    async def _record(
        self, session: WriteSession, request: Request, silence: Silence, verb: str, details: Json
    ) -> None:
        resource = ("alert_silence", silence.id)
        await record(self._p, session, request, f"alert_silence.{verb}", resource, silence.tenant_id, details)


def _episode(view: EpisodeView) -> Json:
    return {
        "object": "organization.alert_episode",
        "id": view.id,
        "source": view.source,
        "scope": view.scope,
        "severity": view.severity,
        "state": "open" if view.resolved_at is None else "resolved",
        "project_id": view.tenant_id,
        "values": view.values,
        "last_values": view.last_values,
        "fired_at": unix(view.fired_at),
        "quiet_since": unix(view.quiet_since),
        "resolved_at": unix(view.resolved_at),
        "announced_at": unix(view.announced_at),
        "silence_id": view.silence_id,
    }


def _silence(silence: Silence) -> Json:
    return {
        "object": "organization.alert_silence",
        "id": silence.id,
        "source": silence.source,
        "scope": silence.scope,
        "project_id": silence.tenant_id,
        "reason": silence.reason,
        "created_by": silence.created_by,
        "starts_at": unix(silence.starts_at),
        "ends_at": unix(silence.ends_at),
        "created_at": unix(silence.created_at),
    }
