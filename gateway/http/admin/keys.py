"""A project's API keys. OpenAI's API cannot make one by itself, so `POST …/api_keys` is ours."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from pydantic import Field

from gateway.errors import NotFound
from gateway.http.admin.common import (
    AdminParts,
    After,
    Body,
    Json,
    Lifetime,
    Limit,
    Name,
    Page,
    actor_of,
    instant_in,
    page_of,
    unix,
)
from gateway.ids import KeyId, ServiceAccountId, TenantId
from gateway.tenancy import KeyChange, KeyOptions
from gateway.tenancy.principal import MODEL_SCOPE
from gateway.tenancy.projects.repository import KeyView, ProjectRepository
from gateway.tenancy.service import SCOPES

__all__ = ["KeyRoutes"]


class KeyBody(Body):
    name: Name
    service_account_id: str | None = None
    scopes: list[str] = Field(default=[MODEL_SCOPE], max_length=20)
    ip_allow_list: list[str] = Field(default=[], max_length=100)
    expires_in_seconds: Lifetime | None = None


class KeyChangeBody(Body):
    """What is not given stays. As at OpenAI, no scopes at all means all of them."""

    scopes: list[str] | None = Field(default=None, max_length=20)
    expires_in_seconds: Lifetime | None = None
    ip_allow_list: list[str] | None = Field(default=None, max_length=100)


class RotateBody(Body):
    grace_s: float = 0
    idempotency_key: str


class KeyRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._projects = ProjectRepository()

    def register(self, router: APIRouter) -> None:
        all_, one = "/projects/{project_id}/api_keys", "/projects/{project_id}/api_keys/{key_id}"
        router.add_api_route(all_, self.create, methods=["POST"])
        router.add_api_route(all_, self.list, methods=["GET"])
        router.add_api_route(one, self.retrieve, methods=["GET"])
        router.add_api_route(one, self.update, methods=["POST"])
        router.add_api_route(one, self.delete, methods=["DELETE"])
        router.add_api_route(f"{one}/rotate", self.rotate, methods=["POST"])

    async def create(self, request: Request, project_id: str, body: KeyBody) -> Json:
        """`value` is in this answer and nowhere else."""
        expires_at = instant_in(self._p, body.expires_in_seconds)
        options = KeyOptions(frozenset(body.scopes), expires_at, tuple(body.ip_allow_list))
        account = ServiceAccountId(body.service_account_id) if body.service_account_id is not None else None
        async with self._p.database.write() as session:
            issued = await self._p.tenancy.create_key(
                session, actor_of(request), TenantId(project_id), body.name, account, options
            )
        return {**await self.retrieve(project_id, issued.id), "value": issued.value}

    async def list(
        self,
        project_id: str,
        limit: Limit = 20,
        after: After = None,
        owner_project_access: Literal["active", "inactive", "any"] = "active",
    ) -> Page:
        has_access = None if owner_project_access == "any" else owner_project_access == "active"
        async with self._p.database.read() as session:
            rows = await self._projects.keys(session, TenantId(project_id), after, limit + 1, has_access)
        return page_of([_key(row) for row in rows], limit)

    async def retrieve(self, project_id: str, key_id: str) -> Json:
        async with self._p.database.read() as session:
            found = await self._projects.key(session, TenantId(project_id), KeyId(key_id))
        if found is None:
            raise NotFound("No such API key.")
        return _key(found)

    async def update(self, request: Request, project_id: str, key_id: str, body: KeyChangeBody) -> Json:
        change = KeyChange(
            frozenset(body.scopes or SCOPES) if body.scopes is not None else None,
            instant_in(self._p, body.expires_in_seconds),
            tuple(body.ip_allow_list) if body.ip_allow_list is not None else None,
        )
        async with self._p.database.write() as session:
            await self._p.tenancy.change_key(
                session, actor_of(request), TenantId(project_id), KeyId(key_id), change
            )
        return await self.retrieve(project_id, key_id)

    async def delete(self, request: Request, project_id: str, key_id: str) -> Json:
        async with self._p.database.write() as session:
            await self._p.tenancy.revoke_key(session, actor_of(request), TenantId(project_id), KeyId(key_id))
        return {"object": "organization.project.api_key.deleted", "id": key_id, "deleted": True}

    async def rotate(self, request: Request, project_id: str, key_id: str, body: RotateBody) -> Json:
        async with self._p.database.write() as session:
            issued = await self._p.tenancy.rotate_key(
                session,
                actor_of(request),
                TenantId(project_id),
                KeyId(key_id),
                body.grace_s,
                body.idempotency_key,
            )
        return {**await self.retrieve(project_id, issued.id), "value": issued.value}


def _key(view: KeyView) -> Json:
    owner: Json = {"type": None, "service_account": None, "user": None}
    if view.account is not None:
        account = view.account
        owner["type"] = "service_account"
        owner["service_account"] = {
            "id": account.id,
            "name": account.name,
            "role": account.role,
            "created_at": unix(account.created_at),
        }
    if view.user is not None:
        user = view.user
        owner["type"] = "user"
        owner["user"] = {
            "id": user.id,
            "name": user.name,
            "email": user.email,
            "created_at": unix(user.created_at),
        }
    return {
        "object": "organization.project.api_key",
        "id": view.id,
        "name": view.name,
        "redacted_value": f"tw-{view.public_id}-***",
        "created_at": unix(view.created_at),
        "last_used_at": unix(view.last_used_at),
        "expires_at": unix(view.expires_at),
        "owner": owner,
        "owner_project_access": "active" if view.has_access else "inactive",
        "scopes": [*view.scopes],
        "ip_allow_list": [*view.ip_allow_list],
    }
