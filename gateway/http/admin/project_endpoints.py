"""A project's own webhook endpoints, for its people in the console: its keys have the same at `/v1/webhook_endpoints`.

Another project's endpoint is answered as one that does not exist, to the operator too: an id belongs to its project.
"""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request

from gateway.alerts.repository.endpoints import Owner
from gateway.alerts.webhooks.service import event_types_of
from gateway.http.admin.common import AdminParts, After, Json, Limit, Page
from gateway.http.admin.endpoint_actions import (
    EndpointActions,
    EndpointBody,
    EndpointChange,
    SampleWanted,
    SecretRotation,
)
from gateway.ids import TenantId

__all__ = ["ProjectEndpointRoutes"]


class ProjectEndpointRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._do = EndpointActions(parts)

    def register(self, router: APIRouter) -> None:
        all_ = "/projects/{project_id}/webhook_endpoints"
        one = f"{all_}/{{endpoint_id}}"
        router.add_api_route(all_, self.create, methods=["POST"])
        router.add_api_route(all_, self.list, methods=["GET"])
        router.add_api_route(one, self.retrieve, methods=["GET"])
        router.add_api_route(one, self.update, methods=["POST"])
        router.add_api_route(one, self.delete, methods=["DELETE"])
        router.add_api_route(f"{one}/rotate_secret", self.rotate_secret, methods=["POST"])
        router.add_api_route(f"{one}/test", self.test, methods=["POST"])
        router.add_api_route(f"{one}/enable", self.enable, methods=["POST"])
        router.add_api_route(f"{one}/deliveries", self.deliveries, methods=["GET"])
        router.add_api_route(f"{one}/deliveries/{{delivery_id}}", self.delivery, methods=["GET"])
        router.add_api_route(f"{one}/deliveries/{{delivery_id}}/replay", self.replay, methods=["POST"])
        types = "/projects/{project_id}/webhook_event_types"
        router.add_api_route(types, self.event_types, methods=["GET"])

    async def create(self, request: Request, project_id: str, body: EndpointBody) -> Json:
        """`signing_secret` is in this answer and nowhere else, and so is the whole address of Slack's."""
        return await self._do.create(request, TenantId(project_id), body)

    async def list(self, project_id: str, limit: Limit = 20, after: After = None) -> Page:
        """Newest first."""
        return await self._do.list(_of(project_id), limit, after)

    async def retrieve(self, project_id: str, endpoint_id: str) -> Json:
        return await self._do.retrieve(_of(project_id), endpoint_id)

    async def update(self, request: Request, project_id: str, endpoint_id: str, body: EndpointChange) -> Json:
        return await self._do.update(request, _of(project_id), endpoint_id, body)

    async def delete(self, request: Request, project_id: str, endpoint_id: str) -> Json:
        return await self._do.delete(request, _of(project_id), endpoint_id)

    async def rotate_secret(
        self, request: Request, project_id: str, endpoint_id: str, body: SecretRotation
    ) -> Json:
        """`signing_secret` is in this answer and nowhere else."""
        return await self._do.rotate_secret(request, _of(project_id), endpoint_id, body)

    async def test(self, project_id: str, endpoint_id: str, body: SampleWanted) -> Json:
        """Sends a sample now, and says what was answered."""
        return await self._do.test(_of(project_id), endpoint_id, body.event_type)

    async def enable(self, request: Request, project_id: str, endpoint_id: str) -> Json:
        return await self._do.enable(request, _of(project_id), endpoint_id)

    async def deliveries(
        self,
        project_id: str,
        endpoint_id: str,
        status: Literal["pending", "delivered", "failed"] | None = None,
        limit: Limit = 20,
        after: After = None,
    ) -> Page:
        """Newest first."""
        return await self._do.deliveries(_of(project_id), endpoint_id, status, limit, after)

    async def delivery(self, project_id: str, endpoint_id: str, delivery_id: str) -> Json:
        """With each attempt that ended."""
        return await self._do.delivery(_of(project_id), endpoint_id, delivery_id)

    async def replay(self, request: Request, project_id: str, endpoint_id: str, delivery_id: str) -> Json:
        """Sent again under the same webhook-id, from the start of the schedule."""
        return await self._do.replay(request, _of(project_id), endpoint_id, delivery_id)

    async def event_types(self, project_id: str) -> Json:
        """What the project's endpoints may ask for."""
        return {"object": "list", "data": [*event_types_of(_of(project_id))]}


def _of(project_id: str) -> Owner:
    return Owner(TenantId(project_id))
