"""Who the caller is, what they may do, and their own password."""

from __future__ import annotations

from fastapi import APIRouter, Request

from gateway.errors import InvalidValue
from gateway.http.admin.common import AdminParts, Body, Json, caller_of, unix
from gateway.http.admin.sessions import Password, visit_in

__all__ = ["MeRoutes"]


class PasswordBody(Body):
    current_password: Password
    new_password: Password


class MeRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts

    def register(self, router: APIRouter) -> None:
        router.add_api_route("/me", self.retrieve, methods=["GET"])
        router.add_api_route("/me/password", self.change_password, methods=["POST"])

    async def retrieve(self, request: Request) -> Json:
        """`may`: each route that the table lets the caller use, in some of their projects at least."""
        caller = caller_of(request)
        people = self._p.people.repository
        user, projects = None, []
        if caller.user_id is not None:
            async with self._p.database.read() as session:
                user = await people.user(session, caller.user_id)
                projects = (await people.projects_of(session, [caller.user_id]))[caller.user_id]
        standing = caller.standing
        return {
            "object": "organization.me",
            "kind": caller.actor.kind,
            "user": {"id": user.id, "name": user.name, "email": user.email, "role": user.role}
            if user is not None
            else None,
            "roles": sorted(caller.roles),
            "is_bound_to_projects": caller.tenants is not None,
            "projects": [{"id": id_, "name": name, "role": role} for id_, name, role in projects],
            "may": caller.may(),
            "session": {"id": standing.session.id, "expires_at": unix(standing.session.expires_at)}
            if standing is not None
            else None,
        }

    async def change_password(self, request: Request, body: PasswordBody) -> Json:
        """The caller's other sessions end."""
        standing = caller_of(request).standing
        if standing is None:
            raise InvalidValue(
                "A password is changed by who is signed in with it, not by a key.", "new_password"
            )
        place = visit_in(request).place
        await self._p.sessions.change_password(standing, body.current_password, body.new_password, place)
        return {"object": "organization.me.password", "changed": True}
