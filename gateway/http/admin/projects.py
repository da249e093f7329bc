"""Projects (tenants), and which served names each may use."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Request
from pydantic import Field

from gateway.errors import NotFound
from gateway.http.admin.common import (
    AdminParts,
    After,
    Body,
    Json,
    Limit,
    Name,
    Page,
    actor_of,
    page_of,
    unix,
    visible,
)
from gateway.ids import TenantId
from gateway.pool.spec import ServedName
from gateway.tenancy.projects.repository import PermissionView, ProjectRepository, ProjectView

__all__ = ["ProjectRoutes"]


class ProjectBody(Body):
    name: Name
    fairness_weight: int = Field(default=1, ge=1, le=1000)


class ProjectChange(Body):
    name: Name | None = None
    fairness_weight: Annotated[int, Field(ge=1, le=1000)] | None = None


class PermissionBody(Body):
    mode: Literal["allow_list", "deny_list"]
    model_ids: list[ServedName] = Field(max_length=1000)


class ProjectRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._projects = ProjectRepository()

    def register(self, router: APIRouter) -> None:
        one = "/projects/{project_id}"
        router.add_api_route("/projects", self.create, methods=["POST"])
        router.add_api_route("/projects", self.list, methods=["GET"])
        router.add_api_route(one, self.retrieve, methods=["GET"])
        router.add_api_route(one, self.update, methods=["POST"])
        router.add_api_route(f"{one}/archive", self.archive, methods=["POST"])
        router.add_api_route(f"{one}/model_permissions", self.permission, methods=["GET"])
        router.add_api_route(f"{one}/model_permissions", self.set_permission, methods=["POST"])
        router.add_api_route(f"{one}/model_permissions", self.delete_permission, methods=["DELETE"])

    async def create(self, request: Request, body: ProjectBody) -> Json:
        async with self._p.database.write() as session:
            tenant_id = await self._p.tenancy.create_tenant(
                session, actor_of(request), body.name, body.fairness_weight
            )
        return await self.retrieve(tenant_id)

    async def list(
        self, request: Request, limit: Limit = 20, after: After = None, include_archived: bool = False
    ) -> Page:
        own = visible(request, ())
        async with self._p.database.read() as session:
            rows = await self._projects.projects(session, after, limit + 1, include_archived, own)
        return page_of([_project(row) for row in rows], limit)

    async def retrieve(self, project_id: str) -> Json:
        async with self._p.database.read() as session:
            found = await self._projects.project(session, TenantId(project_id))
        if found is None:
            raise NotFound("No such project.")
        return _project(found)

    async def update(self, request: Request, project_id: str, body: ProjectChange) -> Json:
        async with self._p.database.write() as session:
            await self._p.projects.update(
                session, actor_of(request), TenantId(project_id), body.name, body.fairness_weight
            )
        return await self.retrieve(project_id)

    async def archive(self, request: Request, project_id: str) -> Json:
        async with self._p.database.write() as session:
            await self._p.tenancy.archive_tenant(session, actor_of(request), TenantId(project_id))
        return await self.retrieve(project_id)

    async def permission(self, project_id: str) -> Json:
        async with self._p.database.read() as session:
            found = await self._projects.permission(session, TenantId(project_id))
        if found is None:
            raise NotFound("The project has no model permissions: every route that matches it is allowed.")
        return _permission(found)

    async def set_permission(self, request: Request, project_id: str, body: PermissionBody) -> Json:
        wanted = PermissionView(body.mode, tuple(body.model_ids))
        async with self._p.database.write() as session:
            await self._p.projects.set_permission(session, actor_of(request), TenantId(project_id), wanted)
        return await self.permission(project_id)

    async def delete_permission(self, request: Request, project_id: str) -> Json:
        async with self._p.database.write() as session:
            deleted = await self._p.projects.set_permission(
                session, actor_of(request), TenantId(project_id), None
            )
        return {"object": "project.model_permissions.deleted", "deleted": deleted}


def _project(view: ProjectView) -> Json:
    return {
        "object": "organization.project",
        "id": view.id,
        "name": view.name,
        "status": view.status,
        "created_at": unix(view.created_at),
        "archived_at": unix(view.archived_at),
        "fairness_weight": view.fairness_weight,
    }


def _permission(view: PermissionView) -> Json:
    return {"object": "project.model_permissions", "mode": view.mode, "model_ids": [*view.model_ids]}
