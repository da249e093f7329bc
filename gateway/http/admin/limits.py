"""Rate limits: `limits` is the truth, per scope (project, key, served name, or one name of one key), each kind with its
own figure; OpenAI's `rate_limits` is a view of those of served names.

What is enforced is all rows that concern a request. A rate limit shows the figure of its model's row, and the project's
where that has none; what is not limited at all is shown as UNLIMITED, since the type has no word for it.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from dataclasses import asdict, replace
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field

from gateway.db import ReadSession, WriteSession
from gateway.errors import InvalidValue, NotFound, UnsupportedParameter
from gateway.http.admin.alert_books import Cursor, turned_page
from gateway.http.admin.common import AdminParts, After, Body, Json, Limit, Page, actor_of, page_of, unix
from gateway.ids import KeyId, TenantId
from gateway.routing.repository import RoutingRepository
from gateway.tenancy import LimitSet, ScopedLimits
from gateway.tenancy.projects.repository import LimitView, ProjectRepository

__all__ = ["UNLIMITED", "LimitRoutes"]

CEILING = 1 << 53
"""Valkey counts in doubles: above this they skip numbers."""
UNLIMITED = CEILING - 1
Ceiling = Annotated[int, Field(ge=0, le=CEILING)]
PREFIX = "rl-"
Rates = tuple[list[str], dict[str | None, LimitView]]


class LimitsBody(Body):
    """None: no such limit. Zero lets nothing through."""

    key_id: str | None = None
    served_model: str | None = Field(default=None, max_length=128)
    requests_per_min: Ceiling | None = None
    requests_burst: Ceiling | None = None
    tokens_per_min: Ceiling | None = None
    requests_per_day: Ceiling | None = None
    concurrent_requests: Ceiling | None = None
    max_prompt_tokens: Ceiling | None = None
    max_output_tokens: Ceiling | None = None


class RateLimitBody(Body):
    """What is not given stays. The three that do not concern text are refused, not ignored."""

    max_requests_per_1_minute: Ceiling | None = None
    max_tokens_per_1_minute: Ceiling | None = None
    max_requests_per_1_day: Ceiling | None = None
    max_images_per_1_minute: Ceiling | None = None
    max_audio_megabytes_per_1_minute: Ceiling | None = None
    batch_1_day_max_input_tokens: Ceiling | None = None


_UNSUPPORTED = ("max_images_per_1_minute", "max_audio_megabytes_per_1_minute", "batch_1_day_max_input_tokens")
_NAMES = {
    "requests_per_min": "max_requests_per_1_minute",
    "tokens_per_min": "max_tokens_per_1_minute",
    "requests_per_day": "max_requests_per_1_day",
}


class LimitRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._projects = ProjectRepository()
        self._routing = RoutingRepository()

    def register(self, router: APIRouter) -> None:
        limits, rates = "/projects/{project_id}/limits", "/projects/{project_id}/rate_limits"
        router.add_api_route(limits, self.list, methods=["GET"])
        router.add_api_route(limits, self.put, methods=["POST"])
        router.add_api_route(f"{limits}/{{limit_id}}", self.delete, methods=["DELETE"])
        router.add_api_route(rates, self.list_rates, methods=["GET"])
        router.add_api_route(f"{rates}/{{rate_limit_id}}", self.update_rate, methods=["POST"])

    async def list(self, project_id: str, limit: Limit = 20, after: After = None) -> Page:
        async with self._p.database.read() as session:
            rows = await self._projects.limits(session, TenantId(project_id), after, limit + 1)
        return page_of([_limits(project_id, row) for row in rows], limit)

    async def put(self, request: Request, project_id: str, body: LimitsBody) -> Json:
        """Replaces the limits of one scope."""
        fields = body.model_dump(exclude={"key_id", "served_model"})
        key_id = KeyId(body.key_id) if body.key_id is not None else None
        scoped = ScopedLimits(key_id, body.served_model, LimitSet(**fields))
        async with self._p.database.write() as session:
            made = await self._p.tenancy.set_limits(session, actor_of(request), TenantId(project_id), scoped)
        return _limits(project_id, made)

    async def delete(self, request: Request, project_id: str, limit_id: str) -> Json:
        """The scope has no limits of its own any more."""
        async with self._p.database.write() as session:
            await self._p.projects.delete_limits(session, actor_of(request), TenantId(project_id), limit_id)
        return {"object": "organization.project.limits.deleted", "id": limit_id, "deleted": True}

    async def list_rates(
        self,
        project_id: str,
        limit: Annotated[int, Query(ge=1, le=100)] = 100,
        after: After = None,
        before: After = None,
    ) -> Page:
        """By served name."""
        async with self._p.database.read() as session:
            names, rows = await self._rates(session, TenantId(project_id))
        cursor = Cursor(limit, after, before)
        if after is not None:
            first = _name(after, "after")
            names = [name for name in names if name > first][: limit + 1]
        elif before is not None:
            last = _name(before, "before")
            names = [name for name in names if name < last][-(limit + 1) :]
        else:
            names = names[: limit + 1]
        return turned_page([_rate(name, rows) for name in names], cursor)

    async def update_rate(
        self, request: Request, project_id: str, rate_limit_id: str, body: RateLimitBody
    ) -> Json:
        for name in _UNSUPPORTED:
            if getattr(body, name) is not None:
                raise UnsupportedParameter(name)
        tenant_id, name = TenantId(project_id), _known_name(rate_limit_id)
        async with self._p.database.write() as session:
            names, rows = await self._rates(session, tenant_id)
            if name not in names:
                raise NotFound("No such rate limit.")
            limits = rows[name].scoped.limits if name in rows else LimitSet()
            given = {ours: getattr(body, theirs) for ours, theirs in _NAMES.items()}
            changed = replace(limits, **{ours: value for ours, value in given.items() if value is not None})
            await self._p.tenancy.set_limits(
                session, actor_of(request), tenant_id, ScopedLimits(None, name, changed)
            )
            rows = await self._projects.limits_of_models(session, tenant_id)
        return _rate(name, rows)

    async def _rates(self, session: ReadSession | WriteSession, tenant_id: TenantId) -> Rates:
        """The served names that the project sees or has limits of, in order, and its rows by name."""
        rows = await self._projects.limits_of_models(session, tenant_id)
        names = set(await self._routing.visible_names(session, tenant_id))
        return sorted(names | {name for name in rows if name is not None}), rows


def _limits(project_id: str, view: LimitView) -> Json:
    return {
        "object": "organization.project.limits",
        "id": view.id,
        "project_id": project_id,
        "key_id": view.scoped.key_id,
        "served_model": view.scoped.served_model,
        **asdict(view.scoped.limits),
        "updated_at": unix(view.updated_at),
    }


def _rate(name: str, rows: dict[str | None, LimitView]) -> Json:
    own, common = (rows[key].scoped.limits if key in rows else LimitSet() for key in (name, None))
    shown = {}
    for ours, theirs in _NAMES.items():
        values = [getattr(own, ours), getattr(common, ours), UNLIMITED]
        shown[theirs] = next(value for value in values if value is not None)
    text = urlsafe_b64encode(name.encode()).decode().rstrip("=")
    return {"object": "project.rate_limit", "id": PREFIX + text, "model": name, **shown}


def _name(rate_limit_id: str, param: str) -> str:
    try:
        return _known_name(rate_limit_id)
    except NotFound:
        raise InvalidValue("This is no place in this list.", param) from None


def _known_name(rate_limit_id: str) -> str:
    text = rate_limit_id.removeprefix(PREFIX)
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except (NotBase64, ValueError):
        raise NotFound("No such rate limit.") from None
