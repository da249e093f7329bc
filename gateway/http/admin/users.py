"""The organisation's users. OpenAI's roles `owner` and `reader` are ours `owner` and `viewer`; we have three more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import AfterValidator, Field

from gateway.errors import NotFound
from gateway.http.admin.alert_books import Address
from gateway.http.admin.common import AdminParts, Body, Json, Name, Page, Params, actor_of, page_of, unix
from gateway.tenancy.people.types import User
from gateway.tenancy.principal import Role

__all__ = ["ROLES", "AnyRole", "UserRoutes", "user_json"]

ROLES: dict[str, Role] = {
    "owner": "owner",
    "admin": "admin",
    "billing": "billing",
    "viewer": "viewer",
    "reader": "viewer",
    "member": "member",
}


def _known(role: str) -> str:
    if role not in ROLES:
        raise ValueError(f"must be one of {', '.join(ROLES)}")
    return role


AnyRole = Annotated[str, AfterValidator(_known)]
"""By OpenAI's name or ours; `ROLES` has ours."""


class UserBody(Body):
    email: Address
    name: Name
    role: AnyRole


class UserChange(Body):
    role: AnyRole | None = None
    name: Name | None = None


class UserParams(Params):
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    after: Annotated[str | None, Field(max_length=200)] = None
    emails: Annotated[tuple[Annotated[str, Field(max_length=254)], ...], Field(max_length=100)] = ()


class UserRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._people = parts.people

    def register(self, router: APIRouter) -> None:
        all_, one = "/users", "/users/{user_id}"
        router.add_api_route(all_, self.create, methods=["POST"])
        router.add_api_route(all_, self.list, methods=["GET"])
        router.add_api_route(one, self.retrieve, methods=["GET"])
        router.add_api_route(one, self.update, methods=["POST"])
        router.add_api_route(one, self.delete, methods=["DELETE"])

    async def create(self, request: Request, body: UserBody) -> Json:
        """Ours: a user without an invite."""
        async with self._p.database.write() as session:
            user = await self._people.create_user(
                session, actor_of(request), body.email, body.name, ROLES[body.role]
            )
        return await self.retrieve(user.id)

    async def list(self, params: Annotated[UserParams, Query()]) -> Page:
        async with self._p.database.read() as session:
            rows = await self._people.repository.users(session, params.after, params.limit + 1, params.emails)
            projects = await self._people.repository.projects_of(session, [row.id for row in rows])
        return page_of([user_json(row, projects[row.id]) for row in rows], params.limit)

    async def retrieve(self, user_id: str) -> Json:
        async with self._p.database.read() as session:
            user = await self._people.repository.user(session, user_id)
            if user is None:
                raise NotFound("No such user.")
            projects = await self._people.repository.projects_of(session, [user_id])
        return user_json(user, projects[user_id])

    async def update(self, request: Request, user_id: str, body: UserChange) -> Json:
        role = ROLES[body.role] if body.role is not None else None
        async with self._p.database.write() as session:
            await self._people.update_user(session, actor_of(request), user_id, role, body.name)
        return await self.retrieve(user_id)

    async def delete(self, request: Request, user_id: str) -> Json:
        async with self._p.database.write() as session:
            await self._people.delete_user(session, actor_of(request), user_id)
        return {"object": "organization.user.deleted", "id": user_id, "deleted": True}


def user_json(user: User, projects: Sequence[tuple[str, str, str]]) -> Json:
    return {
        "object": "organization.user",
        "id": user.id,
        "name": user.name,
        "email": user.email,
        "role": user.role,
        "added_at": unix(user.created_at),
        "created": unix(user.created_at),
        "is_service_account": False,
        "is_scim_managed": False,
        "projects": {
            "object": "list",
            "data": [{"id": id_, "name": name, "role": role} for id_, name, role in projects],
        },
        "user": {
            "object": "user",
            "id": user.id,
            "name": user.name,
            "email": user.email,
            "enabled": True,
            "banned": False,
            "banned_at": None,
        },
    }
