"""Whether a project's requests honour `Idempotency-Key`. Off by default: answers are stored for it."""

from __future__ import annotations

from fastapi import APIRouter, Request

from gateway.db import ReadSession
from gateway.http.admin.common import AdminParts, Body, Json, record
from gateway.ids import TenantId
from gateway.tenancy.projects.repository import ProjectRepository

__all__ = ["IdempotencyRoutes"]


class IdempotencyBody(Body):
    enabled: bool


class IdempotencyRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._projects = ProjectRepository()

    def register(self, router: APIRouter) -> None:
        router.add_api_route("/projects/{project_id}/idempotency", self.retrieve, methods=["GET"])
        router.add_api_route("/projects/{project_id}/idempotency", self.put, methods=["POST"])

    async def retrieve(self, project_id: str) -> Json:
        async with self._p.database.read() as session:
            enabled = await self._projects.is_idempotent(session, TenantId(project_id))
        return _answer(project_id, enabled)

    async def put(self, request: Request, project_id: str, body: IdempotencyBody) -> Json:
        async with self._p.database.write() as session:
            tenant_id = TenantId(project_id)
            before = await self._projects.is_idempotent(ReadSession(session), tenant_id)
            await self._projects.set_idempotent(session, tenant_id, body.enabled)
            resource = ("idempotency", project_id)
            details = {"before": {"enabled": before}, "after": body.model_dump()}
            await record(self._p, session, request, "idempotency.updated", resource, project_id, details)
        return _answer(project_id, body.enabled)


def _answer(project_id: str, enabled: bool) -> Json:
    return {"object": "organization.project.idempotency", "project_id": project_id, "enabled": enabled}
