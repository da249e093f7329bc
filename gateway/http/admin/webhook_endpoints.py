"""The operator's webhook endpoints, and a look at everybody's: deliveries, replay, tests, enabling again.

The shapes are OpenAI's with what it has no word for beside them. A project's own are in project_endpoints.py, and for
its keys at `/v1/webhook_endpoints`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request

from gateway.alerts.repository.endpoints import EVERYBODY, OPERATOR, Owner
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

__all__ = ["WebhookEndpointRoutes"]


class WebhookEndpointRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._do = EndpointActions(parts)

    def register(self, router: APIRouter) -> None:
        all_, one = "/webhook_endpoints", "/webhook_endpoints/{endpoint_id}"
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
        router.add_api_route("/webhook_event_types", self.event_types, methods=["GET"])

    async def create(self, request: Request, body: EndpointBody) -> Json:
        """`signing_secret` is in this answer and nowhere else, and so is the whole address of Slack's."""
        return await self._do.create(request, None, body)

    async def list(
        self,
        project_id: Annotated[str | None, Query(max_length=200)] = None,
        limit: Limit = 20,
        after: After = None,
    ) -> Page:
        """The operator's own, or a project's. Newest first."""
        owner = Owner(TenantId(project_id)) if project_id is not None else OPERATOR
        return await self._do.list(owner, limit, after)

    async def retrieve(self, endpoint_id: str) -> Json:
        return await self._do.retrieve(EVERYBODY, endpoint_id)

    async def update(self, request: Request, endpoint_id: str, body: EndpointChange) -> Json:
        return await self._do.update(request, EVERYBODY, endpoint_id, body)

    async def delete(self, request: Request, endpoint_id: str) -> Json:
        return await self._do.delete(request, EVERYBODY, endpoint_id)

    async def rotate_secret(self, request: Request, endpoint_id: str, body: SecretRotation) -> Json:
        """`signing_secret` is in this answer and nowhere else."""
        return await self._do.rotate_secret(request, EVERYBODY, endpoint_id, body)

    async def test(self, endpoint_id: str, body: SampleWanted) -> Json:
        """Sends a sample now, and says what was answered."""
        return await self._do.test(EVERYBODY, endpoint_id, body.event_type)

    async def enable(self, request: Request, endpoint_id: str) -> Json:
        return await self._do.enable(request, EVERYBODY, endpoint_id)

    async def deliveries(
        self,
        endpoint_id: str,
        status: Literal["pending", "delivered", "failed"] | None = None,
        limit: Limit = 20,
        after: After = None,
    ) -> Page:
        """Newest first."""
        return await self._do.deliveries(EVERYBODY, endpoint_id, status, limit, after)

    async def delivery(self, endpoint_id: str, delivery_id: str) -> Json:
        """With each attempt that ended."""
        return await self._do.delivery(EVERYBODY, endpoint_id, delivery_id)

    async def replay(self, request: Request, endpoint_id: str, delivery_id: str) -> Json:
        """Sent again under the same webhook-id, from the start of the schedule."""
        return await self._do.replay(request, EVERYBODY, endpoint_id, delivery_id)

    async def event_types(self) -> Json:
        """What the operator's endpoints may ask for."""
        return {"object": "list", "data": [*event_types_of(OPERATOR)]}
