"""Signing in to the console, staying signed in, and leaving. Tokens travel in cookies alone, never in a body.

`POST /sessions`, `/refresh` and `/logout` are open: what they are given proves itself. All of them, as every change
that is made with a cookie, need the console's own Origin and the header `x-tollway-console`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field

from gateway.errors import NotFound
from gateway.http.admin.common import (
    AdminParts,
    After,
    Body,
    Json,
    Limit,
    Page,
    actor_of,
    caller_of,
    page_of,
    unix,
)
from gateway.http.browser import Visit
from gateway.ids import UserId
from gateway.sessions import Grant
from gateway.sessions.errors import SessionOver
from gateway.sessions.passwords import CHARS_MAX
from gateway.sessions.types import SessionRow

__all__ = ["Password", "SessionRoutes", "granted", "visit_in"]

Password = Annotated[str, Field(max_length=CHARS_MAX)]


class LoginBody(Body):
    email: Annotated[str, Field(min_length=1, max_length=254)]
    password: Annotated[Password, Field(min_length=1)]


class SessionRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._sessions = parts.sessions

    def register(self, router: APIRouter) -> None:
        all_, one = "/sessions", "/sessions/{session_id}"
        router.add_api_route(all_, self.create, methods=["POST"])
        router.add_api_route(all_, self.list, methods=["GET"])
        router.add_api_route(f"{all_}/refresh", self.refresh, methods=["POST"])
        router.add_api_route(f"{all_}/logout", self.logout, methods=["POST"])
        router.add_api_route(f"{all_}/logout_everywhere", self.logout_everywhere, methods=["POST"])
        router.add_api_route(one, self.delete, methods=["DELETE"])

    async def create(self, request: Request, response: Response, body: LoginBody) -> Json:
        """Signs in with e-mail address and password."""
        visit = visit_in(request)
        return granted(response, visit, await self._sessions.login(body.email, body.password, visit.place))

    async def refresh(self, request: Request, response: Response) -> Json:
        """Signed in for some minutes more. 401 `session_ended`: only signing in again helps."""
        visit = visit_in(request)
        if visit.refresh is None:
            raise SessionOver(is_final=True)
        return granted(response, visit, await self._sessions.refresh(visit.refresh, visit.place))

    async def logout(self, request: Request, response: Response) -> Json:
        """Ends this browser's session, whatever is left of it."""
        visit = visit_in(request)
        await self._sessions.logout(visit.access, visit.refresh, visit.place)
        _set(response, visit.no_cookies())
        return {"object": "organization.session.ended", "ended": True}

    async def logout_everywhere(self, request: Request, response: Response) -> Json:
        """Ends every session of the caller, this one too, on all gateways within 2 seconds."""
        count = await self._sessions.logout_everywhere(_user(request), actor_of(request))
        _set(response, visit_in(request).no_cookies())
        return {"object": "organization.session.ended", "ended": True, "sessions": count}

    async def list(self, request: Request, limit: Limit = 20, after: After = None) -> Page:
        """The caller's own, newest first."""
        caller = caller_of(request)
        own = caller.user_id
        rows = await self._sessions.sessions_of(own, after, limit + 1) if own is not None else []
        current = caller.standing.session.id if caller.standing is not None else None
        return page_of([_shown(row, current) for row in rows], limit)

    async def delete(self, request: Request, session_id: str) -> Json:
        await self._sessions.end(_user(request), session_id, actor_of(request))
        return {"object": "organization.session.deleted", "id": session_id, "deleted": True}


def granted(response: Response, visit: Visit, grant: Grant) -> Json:
    """The answer to whoever is signed in now; the tokens are in its cookies."""
    _set(response, visit.cookies(grant))
    user, row = grant.standing.user, grant.standing.session
    return {
        **_shown(row, row.id),
        "access_expires_at": unix(grant.access_expires_at),
        "refresh_expires_at": unix(grant.refresh_expires_at),
        "user": {"id": user.id, "name": user.name, "email": user.email, "role": user.role},
    }


def visit_in(request: Request) -> Visit:
    """Put there by admin/app.py."""
    visit = request.state.visit
    assert isinstance(visit, Visit)
    return visit


def _user(request: Request) -> UserId:
    own = caller_of(request).user_id
    if own is None:
        raise NotFound("This key belongs to no user, so there are no sessions.")
    return own


def _set(response: Response, headers: Iterable[tuple[str, str]]) -> None:
    for name, value in headers:
        response.headers.append(name, value)


def _shown(row: SessionRow, current: str | None) -> Json:
    return {
        "object": "organization.session",
        "id": row.id,
        "method": row.method,
        "is_current": row.id == current,
        "ip_address": row.address,
        "user_agent": row.user_agent,
        "created_at": unix(row.created_at),
        "last_used_at": unix(row.rotated_at),
        "expires_at": unix(row.expires_at),
    }
