"""Projects (tenants), their service accounts, model permissions and limits."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

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
    Page,
    actor_of,
    page_of,
    record,
    unix,
)
from gateway.ids import KeyId, TenantId
from gateway.tenancy import KeyOptions, LimitSet, ScopedLimits
from gateway.tenancy.projects.repository import AccountView, PermissionView, ProjectRepository, ProjectView

__all__ = ["ProjectRoutes"]

Ceiling = Annotated[int, Field(ge=0, le=1 << 53)]
"""Valkey counts in doubles: above this they skip numbers."""


class ProjectBody(Body):
    name: str
    fairness_weight: int = Field(default=1, ge=1, le=1000)


class AccountBody(Body):
    name: str
    create_service_account_only: bool | None = None
    expires_in_seconds: Lifetime | None = None


class PermissionBody(Body):
    mode: Literal["allow_list", "deny_list"]
    model_ids: list[str] = Field(max_length=1000)


class LimitsBody(Body):
    """None: no such limit. Zero lets nothing through."""

    key_id: str | None = None
    served_model: str | None = None
    requests_per_min: Ceiling | None = None
    requests_burst: Ceiling | None = None
    tokens_per_min: Ceiling | None = None
    requests_per_day: Ceiling | None = None
    concurrent_requests: Ceiling | None = None
    max_prompt_tokens: Ceiling | None = None
    max_output_tokens: Ceiling | None = None


class ProjectRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._projects = ProjectRepository()

    def register(self, router: APIRouter) -> None:
        one = "/projects/{project_id}"
        router.add_api_route("/projects", self.create, methods=["POST"])
        router.add_api_route("/projects", self.list, methods=["GET"])
        router.add_api_route(one, self.retrieve, methods=["GET"])
        router.add_api_route(f"{one}/archive", self.archive, methods=["POST"])
        router.add_api_route(f"{one}/service_accounts", self.create_account, methods=["POST"])
        router.add_api_route(f"{one}/service_accounts", self.list_accounts, methods=["GET"])
        router.add_api_route(f"{one}/model_permissions", self.permission, methods=["GET"])
        router.add_api_route(f"{one}/model_permissions", self.set_permission, methods=["POST"])
        router.add_api_route(f"{one}/model_permissions", self.delete_permission, methods=["DELETE"])
        router.add_api_route(f"{one}/limits", self.set_limits, methods=["POST"])

    async def create(self, request: Request, body: ProjectBody) -> Json:
        async with self._p.database.write() as session:
            tenant_id = await self._p.tenancy.create_tenant(
                session, actor_of(request), body.name, body.fairness_weight
            )
        return await self.retrieve(tenant_id)

    async def list(self, limit: Limit = 20, after: After = None, include_archived: bool = False) -> Page:
        async with self._p.database.read() as session:
            rows = await self._projects.projects(session, after, limit + 1, include_archived)
        return page_of([_project(row) for row in rows], limit)

    async def retrieve(self, project_id: str) -> Json:
        async with self._p.database.read() as session:
            found = await self._projects.project(session, TenantId(project_id))
        if found is None:
            raise NotFound("No such project.")
        return _project(found)

    async def archive(self, request: Request, project_id: str) -> Json:
        async with self._p.database.write() as session:
            await self._p.tenancy.archive_tenant(session, actor_of(request), TenantId(project_id))
        return await self.retrieve(project_id)

    async def create_account(self, request: Request, project_id: str, body: AccountBody) -> Json:
        """As at OpenAI, the account comes with its first key, whose value is shown here and never again."""
        tenant_id, actor, issued = TenantId(project_id), actor_of(request), None
        now = self._p.clock.now()
        expiry = timedelta(seconds=body.expires_in_seconds) if body.expires_in_seconds is not None else None
        async with self._p.database.write() as session:
            account_id = await self._p.tenancy.create_service_account(session, actor, tenant_id, body.name)
            if not body.create_service_account_only:
                options = KeyOptions(expires_at=now + expiry if expiry is not None else None)
                issued = await self._p.tenancy.create_key(
                    session, actor, tenant_id, body.name, account_id, options
                )
        key = None
        if issued is not None:
            key = {
                "object": "organization.project.service_account.api_key",
                "id": issued.id,
                "name": body.name,
                "created_at": unix(now),
                "value": issued.value,
                "expires_at": unix(now + expiry) if expiry is not None else None,
            }
        account = AccountView(account_id, body.name, "member", now)
        role = "none" if body.create_service_account_only else "member"
        return {**_account(account), "role": role, "api_key": key}

    async def list_accounts(self, project_id: str, limit: Limit = 20, after: After = None) -> Page:
        async with self._p.database.read() as session:
            rows = await self._projects.accounts(session, TenantId(project_id), after, limit + 1)
        return page_of([_account(row) for row in rows], limit)

    async def permission(self, project_id: str) -> Json:
        async with self._p.database.read() as session:
            found = await self._projects.permission(session, TenantId(project_id))
        if found is None:
            raise NotFound("The project has no model permissions: every route that matches it is allowed.")
        return _permission(found)

    async def set_permission(self, request: Request, project_id: str, body: PermissionBody) -> Json:
        await self.retrieve(project_id)
        async with self._p.database.write() as session:
            await self._projects.put_permission(session, TenantId(project_id), body.mode, body.model_ids)
            resource = ("model_permissions", project_id)
            await record(
                self._p,
                session,
                request,
                "model_permissions.updated",
                resource,
                project_id,
                body.model_dump(),
            )
        return await self.permission(project_id)

    async def delete_permission(self, request: Request, project_id: str) -> Json:
        async with self._p.database.write() as session:
            deleted = await self._projects.delete_permission(session, TenantId(project_id))
            if deleted:
                resource = ("model_permissions", project_id)
                await record(self._p, session, request, "model_permissions.deleted", resource, project_id, {})
        return {"object": "project.model_permissions.deleted", "deleted": deleted}

    async def set_limits(self, request: Request, project_id: str, body: LimitsBody) -> Json:
        """Replaces the limits of one scope: the project, one key, one served model, or one model of one key."""
        fields = body.model_dump(exclude={"key_id", "served_model"})
        key_id = KeyId(body.key_id) if body.key_id is not None else None
        scoped = ScopedLimits(key_id, body.served_model, LimitSet(**fields))
        async with self._p.database.write() as session:
            await self._p.tenancy.set_limits(session, actor_of(request), TenantId(project_id), scoped)
        return {"object": "organization.project.limits", "project_id": project_id, **body.model_dump()}


def _project(view: ProjectView) -> Json:
    return {
        "object": "organization.project",
        "id": view.id,
        "name": view.name,
        "status": view.status,
        "created_at": unix(view.created_at),
        "archived_at": unix(view.archived_at),
    }


def _account(view: AccountView) -> Json:
    return {
        "object": "organization.project.service_account",
        "id": view.id,
        "name": view.name,
        "role": view.role,
        "created_at": unix(view.created_at),
    }


def _permission(view: PermissionView) -> Json:
    return {"object": "project.model_permissions", "mode": view.mode, "model_ids": [*view.model_ids]}
