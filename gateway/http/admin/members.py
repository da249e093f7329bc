"""A project's users: who belongs to it, as its owner or its member."""

from __future__ import annotations

from fastapi import APIRouter, Request

from gateway.errors import MissingParameter, NotFound
from gateway.http.admin.common import AdminParts, After, Body, Json, Limit, Page, actor_of, page_of, unix
from gateway.ids import TenantId
from gateway.tenancy.people.types import Member
from gateway.tenancy.principal import ProjectRole

__all__ = ["MemberRoutes"]


class MemberBody(Body):
    """By `user_id`, or by `email`."""

    role: ProjectRole
    user_id: str | None = None
    email: str | None = None


class MemberChange(Body):
    role: ProjectRole | None = None


class MemberRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._people = parts.people

    def register(self, router: APIRouter) -> None:
        all_, one = "/projects/{project_id}/users", "/projects/{project_id}/users/{user_id}"
        router.add_api_route(all_, self.create, methods=["POST"])
        router.add_api_route(all_, self.list, methods=["GET"])
        router.add_api_route(one, self.retrieve, methods=["GET"])
        router.add_api_route(one, self.update, methods=["POST"])
        router.add_api_route(one, self.delete, methods=["DELETE"])

    async def create(self, request: Request, project_id: str, body: MemberBody) -> Json:
        people = self._people.repository
        async with self._p.database.write() as session:
            if body.user_id is not None:
                user = await people.user(session, body.user_id)
            elif body.email is not None:
                user = await people.user_by_email(session, body.email)
            else:
                raise MissingParameter("user_id")
            if user is None:
                raise NotFound("No such user.")
            made = await self._people.add_member(
                session, actor_of(request), TenantId(project_id), user, body.role
            )
        return _member(made)

    async def list(self, project_id: str, limit: Limit = 20, after: After = None) -> Page:
        async with self._p.database.read() as session:
            rows = await self._people.repository.members(session, TenantId(project_id), after, limit + 1)
        return page_of([_member(row) for row in rows], limit)

    async def retrieve(self, project_id: str, user_id: str) -> Json:
        async with self._p.database.read() as session:
            found = await self._people.repository.member(session, TenantId(project_id), user_id)
        if found is None:
            raise NotFound("No such user in this project.")
        return _member(found)

    async def update(self, request: Request, project_id: str, user_id: str, body: MemberChange) -> Json:
        if body.role is not None:
            async with self._p.database.write() as session:
                await self._people.update_member(
                    session, actor_of(request), TenantId(project_id), user_id, body.role
                )
        return await self.retrieve(project_id, user_id)

    async def delete(self, request: Request, project_id: str, user_id: str) -> Json:
        async with self._p.database.write() as session:
            await self._people.remove_member(session, actor_of(request), TenantId(project_id), user_id)
        return {"object": "organization.project.user.deleted", "id": user_id, "deleted": True}


def _member(member: Member) -> Json:
    return {
        "object": "organization.project.user",
        "id": member.user.id,
        "name": member.user.name,
        "email": member.user.email,
        "role": member.role,
        "added_at": unix(member.added_at),
    }
